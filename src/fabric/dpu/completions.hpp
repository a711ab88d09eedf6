// Writes completions to ranks of the host: the result, then the slot's state, then the count, each in place before the
// next. Also writes the other fields of a rank's segment.
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
  // Starts all writes that are possible now.
  void step(RemoteRank& rank);
  // See DpuFabric.
  void publish_route(WorldRank rank, std::size_t route);

 private:
  void tell_completions(RemoteRank& rank);
  void tell_states(WorldRank rank, const std::vector<SlotIndex>& slots);
  void tell_line(RemoteRank& rank);

  RemoteRanks& ranks_;
};

}  // namespace outrigger::fabric::dpu
