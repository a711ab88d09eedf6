// How long one all-to-all of a job takes that is too large to be simulated whole: the service processes of one node are
// real, the rest of the job is symbolic.
//
// All nodes do the same, so each does at any moment what this one does: whenever a block is asked for here, a peer asks
// for one of this node's, in the order of the announcements. So the node's own ports carry both ways what they would,
// while those of each peer carry only what concerns this node; a saturated port of a peer is as this node's own. There
// is no state for pairs of other ranks.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "sim/model/cluster.hpp"
#include "sim/regular_job.hpp"

namespace outrigger::sim::timing {

struct OneNodeOptions {
  JobShape shape;  // contiguous
  std::uint64_t block_bytes = 4096;
  std::uint64_t seed = 1;
};

// Of one service process where it says so; of several the mean.
struct OneNodeResult {
  std::uint64_t pure_ns = 0;
  std::uint64_t busy_ns = 0;            // a service process's core
  std::uint64_t moves = 0;              // of a service process
  std::uint64_t messages_sent = 0;      // the same
  std::uint64_t messages_received = 0;  // the same
  std::uint64_t link_bytes = 0;         // of the node, each way
};

// An error names the option that cannot be.
[[nodiscard]] Result<OneNodeResult> time_one_node(const model::Cluster& cluster, const OneNodeOptions& options);

}  // namespace outrigger::sim::timing
