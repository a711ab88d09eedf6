// What both broadcasts have in common: each rank of the group gets the root's block, whole or in segments. Where they
// come from is the algorithm's.
#pragma once

#include <cstdint>

#include "engine/core/operation.hpp"
#include "engine/relay/segmented_block.hpp"

namespace outrigger::engine {

// How one rank gets the block.
struct BroadcastPlan {
  std::uint32_t segments = 1;
  Route route = kAtSource;
  // Is this service process the home of the segment, which reads it at the root? Homes go round by round: they ask for
  // what others are the homes of when these have read it. Null: everything is asked for at once.
  bool (*is_home)(const Membership& group, const Segment& segment) = nullptr;
};

Task bcast_by_segments(Operation& operation, LocalRank& rank,
                       BroadcastPlan (*plan)(const Operation& operation, const LocalRank& rank, GroupRank root));

}  // namespace outrigger::engine
