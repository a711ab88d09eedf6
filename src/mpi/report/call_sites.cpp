#include "mpi/report/call_sites.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/futex_lock.hpp"
#include "base/stack.hpp"
#include "mpi/report/present_call.hpp"

namespace outrigger::mpi {
namespace {

using report::LedgerRow;

constexpr unsigned kKnownSitesLog2 = 8;
constexpr std::size_t kKnownSites = std::size_t{1} << kKnownSitesLog2;

struct KnownSite {
  CallOrigin origin;
  std::size_t kind = 0;
  bool waits = false;
  std::uint32_t slot_count = 0;
  std::array<ReturnSlot, kMostSlots> slots;
  LedgerRow* row = nullptr;
};

constinit FutexLock sites_mutex;
constinit std::array<KnownSite, kKnownSites> known_sites;  // under the lock

bool is_way_of(const KnownSite& known, const CallOrigin& origin) {
  if (known.slot_count == 0) return true;
  if (known.origin.depth != origin.depth || !is_on_this_stack(origin.depth, known.slots[known.slot_count - 1].place)) {
    return false;
  }
  return std::all_of(known.slots.begin(), known.slots.begin() + known.slot_count,
                     [](const ReturnSlot& slot) { return *slot.place == slot.address; });
}

LedgerRow* row_of_places(CallKind kind, bool waits, const CallPlaces& places) {
  using Key = std::tuple<std::size_t, bool, std::uint32_t, std::uint64_t, std::uint32_t, std::uint64_t>;
  static auto* rows = new std::map<Key, LedgerRow*>;  // until the end of the process
  const auto [place, is_new] = rows->try_emplace(
      Key{index_of(kind), waits, places.site.object, places.site.offset, places.caller.object, places.caller.offset});
  if (is_new) place->second = new_site_row(kind, waits, places);
  return place->second;
}

std::size_t site_entry_of(const CallOrigin& origin, std::size_t kind, bool waits, bool with_depth) {
  constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15ULL;
  std::uint64_t hash = reinterpret_cast<std::uintptr_t>(origin.caller) + 2 * kind + (waits ? 1 : 0);
  hash *= kMix;
  if (with_depth) hash = (hash ^ reinterpret_cast<std::uintptr_t>(origin.depth)) * kMix;
  return hash >> (64U - kKnownSitesLog2);
}

LedgerRow* find_row(CallKind kind, bool waits, const CallOrigin& origin) {
  const std::size_t index = index_of(kind);
  std::unique_lock lock(sites_mutex);
  for (const bool with_depth : {false, true}) {
    const KnownSite& known = known_sites[site_entry_of(origin, index, waits, with_depth)];
    const bool is_it = known.row != nullptr && known.origin.caller == origin.caller && known.kind == index &&
                       known.waits == waits && (known.slot_count != 0) == with_depth;
    if (is_it && is_way_of(known, origin)) return known.row;
  }
  // The loader has locks of its own, and runs code of the program under them.
  lock.unlock();
  const CallWay way = way_of(origin, code_at(origin.caller));
  lock.lock();
  LedgerRow* row = row_of_places(kind, waits, way.places);
  if (way.repeats && row != nullptr) {
    known_sites[site_entry_of(origin, index, waits, way.slot_count != 0)] =
        KnownSite{origin, index, waits, way.slot_count, way.slots, row};
  }
  return row;
}

[[gnu::tls_model("initial-exec")]] constinit thread_local CompletionOrigin* completion = nullptr;
[[gnu::tls_model("initial-exec")]] constinit thread_local StartOrigin* started_by = nullptr;

}  // namespace

LedgerRow* site_row(CallKind kind, const CallOrigin& origin) {
  return find_row(kind, false, origin);
}

LedgerRow* wait_site_row(CallKind kind, const CallOrigin& origin) {
  return find_row(kind, true, origin);
}

// A thread has one: completion calls inside another, by a callback, belong to the outer one.
void CompletionOrigin::begin() {
  is_outer_ = !is_above(completion, this);
  if (is_outer_) completion = this;
}

void CompletionOrigin::end() const {
  completion = nullptr;
  if (entered_) leave_call(monotonic_ns());
}

bool CompletionOrigin::is_here() {
  return is_above(completion, __builtin_frame_address(0));
}

bool CompletionOrigin::has_counted() {
  return is_here() && completion->has_counted_;
}

LedgerRow* CompletionOrigin::site_of(const LedgerRow& row) {
  if (site_ == nullptr || kind_ != row.kind) {
    kind_ = row.kind;
    site_ = wait_site_row(call_kind_at(kind_), origin_);
  }
  return site_;
}

void CompletionOrigin::waits_for(const LedgerRow& row, std::uint64_t ordinal) {
  if (!is_above(completion, __builtin_frame_address(0))) return;
  completion->entered_ = true;
  const LedgerRow* site = completion->site_of(row);
  enter_call({row, site, true, ordinal}, monotonic_ns());
}

LedgerRow* CompletionOrigin::row_for(CallKind kind) {
  if (!is_above(completion, __builtin_frame_address(0))) return nullptr;
  return wait_site_row(kind, completion->origin_);
}

void CompletionOrigin::add_wait(const LedgerRow& row, std::int64_t spent_ns) {
  if (!is_above(completion, __builtin_frame_address(0))) return;
  completion->has_counted_ = true;
  LedgerRow* site = completion->site_of(row);
  if (site == nullptr) return;
  change_row(*site, [&](LedgerRow& counted) {
    ++counted.calls;
    counted.call_ns += spent_ns;
  });
}

void StartOrigin::begin() {
  begun_ = true;
  outer_ = std::exchange(started_by, this);
}

void StartOrigin::end() const {
  started_by = outer_;
}

LedgerRow* StartOrigin::site_of(const LedgerRow& row) {
  return is_above(started_by, __builtin_frame_address(0)) ? site_row(call_kind_at(row.kind), started_by->origin_)
                                                          : nullptr;
}

}  // namespace outrigger::mpi
