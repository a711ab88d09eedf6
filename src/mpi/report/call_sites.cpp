#include "mpi/report/call_sites.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/futex_lock.hpp"
#include "base/stack.hpp"
#include "mpi/report/known_sites.hpp"
#include "mpi/report/present_call.hpp"

namespace outrigger::mpi {
namespace {

using report::LedgerRow;

constinit FutexLock sites_mutex;
constinit KnownSites known_sites;  // under the lock

LedgerRow* row_of_places(CallKind kind, bool waits, const CallPlaces& places) {
  using Key = std::tuple<std::size_t, bool, std::uint32_t, std::uint64_t, std::uint32_t, std::uint64_t>;
  static auto* rows = new std::map<Key, LedgerRow*>;  // until the end of the process
  const auto [place, is_new] = rows->try_emplace(
      Key{index_of(kind), waits, places.site.object, places.site.offset, places.caller.object, places.caller.offset});
  if (is_new) place->second = new_site_row(kind, waits, places);
  return place->second;
}

LedgerRow* find_row(CallKind kind, bool waits, const CallOrigin& origin) {
  const KnownSites::Call call{origin, index_of(kind), waits};
  std::unique_lock lock(sites_mutex);
  if (LedgerRow* row = known_sites.find(call)) return row;
  // The loader has locks of its own, and runs code of the program under them.
  lock.unlock();
  const CallWay way = way_of(origin, code_at(origin.caller));
  lock.lock();
  LedgerRow* row = row_of_places(kind, waits, way.places);
  if (way.repeats && row != nullptr) known_sites.keep(call, way, row);
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
