// Time of one all-to-all in a job that is too large for a full simulation: the service processes of one node are real,
// the rest of the job is symbolic.
//
// All nodes behave alike, so each does at any moment what this one does: whenever a block is requested here, a peer
// requests one of this node's, in the order of the announcements. So this node's ports carry the full load both ways.
// Ports of a peer carry only the traffic with this node; a saturated port of a peer behaves like this node's own. There
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

// With several service processes, figures "of a service process" are means.
struct OneNodeResult {
  std::uint64_t pure_ns = 0;
  std::uint64_t busy_ns = 0;            // of a service process's core
  std::uint64_t moves = 0;              // of a service process
  std::uint64_t messages_sent = 0;      // of a service process
  std::uint64_t messages_received = 0;  // of a service process
  std::uint64_t link_bytes = 0;         // of the node, each way
};

// Error: names the option that is not allowed.
[[nodiscard]] Result<OneNodeResult> time_one_node(const model::Cluster& cluster, const OneNodeOptions& options);

}  // namespace outrigger::sim::timing
