// Ways of earlier calls into the MPI, each with its row of the ledger: a call that comes by a known way is not unwound.
//
// Several ways of one caller may have the same depth of the stack, as where a loop of a library calls a function from
// two lines. So ways are kept in sets, by caller and depth.
//
// Thread rule: one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mpi/report/call_ways.hpp"
#include "report/ledger.hpp"

namespace outrigger::mpi {

class KnownSites {
 public:
  struct Call {
    CallOrigin origin;
    std::size_t kind = 0;
    bool waits = false;
  };

  // nullptr: the way is not known.
  [[nodiscard]] report::LedgerRow* find(const Call& call) {
    for (const bool with_depth : {false, true}) {
      for (const Site& site : set_of(call, with_depth)) {
        if (is_of(site, call, with_depth)) return site.row;
      }
    }
    return nullptr;
  }

  // `way`: one that repeats. Replaces another of its set if that is full.
  void keep(const Call& call, const CallWay& way, report::LedgerRow* row) {
    const std::span<Site> set = set_of(call, way.slot_count != 0);
    auto place = std::ranges::find(set, nullptr, &Site::row);
    if (place == set.end()) place = set.begin() + static_cast<std::ptrdiff_t>(replaced_++ % kWays);
    *place = {call, way.slot_count, way.slots, row};
  }

 private:
  static constexpr unsigned kSetsLog2 = 6;
  static constexpr std::size_t kWays = 4;  // of a set

  struct Site {
    Call call;
    std::uint32_t slot_count = 0;
    std::array<ReturnSlot, kMostSlots> slots;
    report::LedgerRow* row = nullptr;
  };

  [[nodiscard]] std::span<Site> set_of(const Call& call, bool with_depth) {
    constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15ULL;
    std::uint64_t hash = reinterpret_cast<std::uintptr_t>(call.origin.caller) + 2 * call.kind + (call.waits ? 1 : 0);
    hash *= kMix;
    if (with_depth) hash = (hash ^ reinterpret_cast<std::uintptr_t>(call.origin.depth)) * kMix;
    return sets_[hash >> (64U - kSetsLog2)];
  }

  [[nodiscard]] static bool is_of(const Site& site, const Call& call, bool with_depth) {
    if (site.row == nullptr || (site.slot_count != 0) != with_depth) return false;
    if (site.call.origin.caller != call.origin.caller || site.call.kind != call.kind || site.call.waits != call.waits) {
      return false;
    }
    return !with_depth || is_way_of(site, call.origin);
  }

  [[nodiscard]] static bool is_way_of(const Site& site, const CallOrigin& origin) {
    const std::span slots = std::span(site.slots).first(site.slot_count);
    if (site.call.origin.depth != origin.depth || !is_on_this_stack(origin.depth, slots.back().place)) return false;
    return std::ranges::all_of(slots, [](const ReturnSlot& slot) { return *slot.place == slot.address; });
  }

  std::array<std::array<Site, kWays>, std::size_t{1} << kSetsLog2> sets_;
  std::size_t replaced_ = 0;
};

}  // namespace outrigger::mpi
