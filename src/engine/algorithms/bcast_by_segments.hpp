// Common part of the broadcasts: each rank of the group gets the root's block, whole or in segments. The algorithm
// names the places to read it.
#pragma once

#include <cstdint>

#include "engine/core/operation.hpp"
#include "engine/relay/segmented_block.hpp"

namespace outrigger::engine {

// Plan by which one rank gets the block.
struct BroadcastPlan {
  std::uint32_t segments = 1;
  Route route = kAtSource;
  // True if this service process is the home of the segment, which reads it at the root. Homes work in rounds: each
  // asks for the other homes' segments after those have been read. nullptr: requests all segments at once.
  bool (*is_home)(const Membership& group, const Segment& segment) = nullptr;
};

Task bcast_by_segments(Operation& operation, LocalRank& rank,
                       BroadcastPlan (*plan)(const Operation& operation, const LocalRank& rank, GroupRank root));

}  // namespace outrigger::engine
