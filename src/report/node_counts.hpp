// What the ranks of one node have counted, where the job has ended without MPI_Finalize: keepers of other nodes hand it
// to that of the first, which puts all of it together.
//
// Plain values; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protocol/wire_route.hpp"
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
// Nothing: no bytes that encode_node_counts() would have written. What is in the ledgers is checked by summary_of().
[[nodiscard]] std::optional<NodeCounts> decode_node_counts(std::span<const std::byte> bytes);

// Of all ranks that are named, each once. How the job ended is what tells most of it: why the library has ended it, who
// has aborted it, a rank that has ended otherwise; those that a launcher ends on its account have SIGTERM or SIGKILL.
// Of several alike it is the earliest.
[[nodiscard]] Summary summary_of(std::span<const NodeCounts> nodes);

}  // namespace outrigger::report
