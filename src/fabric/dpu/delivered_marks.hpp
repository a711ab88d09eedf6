// Writes delivered marks into the ranks' segments, which outlive this service process and this DPU. The marks of a turn
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
  // Starts to write the added marks.
  void write();
  // Number of the last mark added; in_place() reaches it later.
  [[nodiscard]] std::uint64_t last() const { return added_.empty() ? begun_ : begun_ + 1; }
  // Marks up to this number are in place, or their rank is gone.
  [[nodiscard]] std::uint64_t in_place() const { return in_place_; }
  [[nodiscard]] bool all_in_place() const { return in_place_ == last(); }
  // Called once a turn.
  std::function<void()> on_in_place;

 private:
  // Marks of one slot in [first, end).
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
  std::uint64_t begun_ = 0;            // turns in which marks were written
  std::uint64_t in_place_ = 0;         // number of the first turns whose marks are in place
  std::deque<std::size_t> under_way_;  // writes in flight of each later turn
};

}  // namespace outrigger::fabric::dpu
