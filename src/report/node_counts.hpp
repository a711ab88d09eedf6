// The counts of one node's ranks in a job that has ended without MPI_Finalize. Keepers of other nodes send them to the
// keeper of world rank 0's node, which puts all of them together.
//
// Plain values; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protocol/shared/wire_route.hpp"
#include "report/summary.hpp"

namespace outrigger::report {

struct NodeCounts {
  struct Rank {
    std::vector<std::byte> ledger;  // as Ledger::bytes() gives it
    std::int64_t left_ns = 0;       // on the node's CLOCK_MONOTONIC, as the times in it
  };
  Ending ended;                   // as seen there
  std::int64_t ended_at_ns = 0;   // CLOCK_REALTIME
  std::vector<WireRoute> routes;  // of its service processes
  std::vector<Rank> ranks;
};

[[nodiscard]] std::vector<std::byte> encode_node_counts(const NodeCounts& counts);
// Nothing: encode_node_counts() would not have written these bytes. summary_of() checks the ledgers.
[[nodiscard]] std::optional<NodeCounts> decode_node_counts(std::span<const std::byte> bytes);

// Counts each rank once. `ended` is the cause among what the nodes have seen, in this order: the library has ended the
// job, a rank has aborted it, a rank has ended otherwise, a rank was killed by SIGTERM or SIGKILL, as launchers do to
// the other ranks. The earliest of equal ones counts.
[[nodiscard]] Summary summary_of(std::span<const NodeCounts> nodes);

}  // namespace outrigger::report
