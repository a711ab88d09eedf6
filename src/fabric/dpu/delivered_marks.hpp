// Delivered marks, written into the ranks' segments: what outlives this service process, and this DPU. Marks of a turn
// are written together.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "fabric/dpu/remote_ranks.hpp"
#include "fabric/host/host_fabric.hpp"

namespace outrigger::fabric::dpu {

class DeliveredMarks {
 public:
  DeliveredMarks(HostFabric& node, RemoteRanks& ranks) : node_(node), ranks_(ranks) {}

  // The node's fabric has set it in the mirror.
  void add(WorldRank rank, SlotIndex slot, GroupRank source);
  // Begins to write what has been added.
  void write();
  // Of all marks that have been added so far: in_place() comes to it.
  [[nodiscard]] std::uint64_t last() const { return added_.empty() ? begun_ : begun_ + 1; }
  // Marks up to there are in place, or the rank is gone.
  [[nodiscard]] std::uint64_t in_place() const { return in_place_; }
  [[nodiscard]] bool all_in_place() const { return in_place_ == last(); }
  // Once a turn, by whoever has this.
  std::function<void()> on_in_place;

 private:
  // Of one slot, from `first` to before `end`.
  struct Added {
    WorldRank rank;
    SlotIndex slot;
    std::uint32_t first = 0;
    std::uint32_t end = 0;
  };
  void write_those_of(const Added& added, std::uint64_t turn);
  void ended(std::uint64_t turn);

  HostFabric& node_;
  RemoteRanks& ranks_;
  std::vector<Added> added_;
  std::uint64_t begun_ = 0;            // turns in which some were written
  std::uint64_t in_place_ = 0;         // of them, the first ones
  std::deque<std::size_t> under_way_;  // writes of each turn after these
};

}  // namespace outrigger::fabric::dpu
