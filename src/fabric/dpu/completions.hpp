// Completions, told to ranks of the host: result and marks, then the slot's state, then the count, each in place before
// the next is written. Also what else a rank is told by its segment.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <vector>

#include "fabric/dpu/remote_ranks.hpp"
#include "fabric/host/host_fabric.hpp"

namespace outrigger::fabric::dpu {

class Completions {
 public:
  Completions(HostFabric& node, RemoteRanks& ranks) : node_(node), ranks_(ranks) {}

  // The node's fabric has written it into the mirror.
  void add(WorldRank rank, SlotIndex slot);
  // Begins what can be begun now.
  void step(RemoteRank& rank);
  // As DpuFabric's.
  void publish_route(WorldRank rank, std::size_t route);

 private:
  void tell_completions(RemoteRank& rank);
  void tell_states(WorldRank rank, const std::vector<SlotIndex>& slots);
  void store_result(RemoteRank& rank, SlotIndex slot);
  void tell_line(RemoteRank& rank);

  HostFabric& node_;
  RemoteRanks& ranks_;
};

}  // namespace outrigger::fabric::dpu
