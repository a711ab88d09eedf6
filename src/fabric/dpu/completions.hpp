// Completions, told to ranks of the host: the result, then the slot's state, then the count, each in place before the
// next is written. Also what else a rank is told by its segment.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <vector>

#include "fabric/dpu/remote_ranks.hpp"

namespace outrigger::fabric::dpu {

class Completions {
 public:
  explicit Completions(RemoteRanks& ranks) : ranks_(ranks) {}

  // The node's fabric has written it into the mirror.
  void add(WorldRank rank, SlotIndex slot);
  // Begins what can be begun now.
  void step(RemoteRank& rank);
  // As DpuFabric's.
  void publish_route(WorldRank rank, std::size_t route);

 private:
  void tell_completions(RemoteRank& rank);
  void tell_states(WorldRank rank, const std::vector<SlotIndex>& slots);
  void tell_line(RemoteRank& rank);

  RemoteRanks& ranks_;
};

}  // namespace outrigger::fabric::dpu
