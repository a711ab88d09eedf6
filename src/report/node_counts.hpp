// The counts of one node's ranks in a job that ended without MPI_Finalize. Keepers of other nodes send them to the
// keeper of world rank 0's node, which combines them.
//
// Plain values; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protocol/limits.hpp"
#include "protocol/shared/wire_route.hpp"
#include "protocol/wire/message_io.hpp"
#include "report/summary.hpp"

namespace outrigger::report {

inline constexpr std::uint64_t kNodeCountsMagic = 0x32434E524F;  // "ORNC2"

struct NodeCounts {
  struct Rank {
    std::vector<std::byte> ledger;  // from Ledger::bytes()
    std::int64_t left_ns = 0;       // by the node's CLOCK_MONOTONIC, as the times in the ledger
    static constexpr void fields(auto& io, auto& rank) {
      io.value(rank.left_ns);
      io.list(rank.ledger, Ledger::kBytes);
    }
  };
  Ending ended;                   // as seen on this node
  std::int64_t ended_at_ns = 0;   // CLOCK_REALTIME
  std::vector<WireRoute> routes;  // of its service processes
  std::vector<Rank> ranks;
  static constexpr void fields(auto& io, auto& counts) {
    io.constant(kNodeCountsMagic);
    io.value(counts.ended, counts.ended_at_ns);
    io.list(counts.routes, std::size_t{kMaxServices} * kMaxWireRoutes);
    io.list(counts.ranks, kMaxLocalRanks);
  }
};

[[nodiscard]] std::vector<std::byte> encode_node_counts(NodeCounts counts);
// nullopt: encode_node_counts() would not have written these bytes. summary_of() checks the ledgers.
[[nodiscard]] std::optional<NodeCounts> decode_node_counts(std::span<const std::byte> bytes);

// Counts each rank once. `ended` is the most likely cause among those seen by the nodes, the earliest of equal ones.
// The order is: the library ended the job, a rank aborted it, a rank ended otherwise, a rank was killed by SIGTERM or
// SIGKILL. Launchers kill the other ranks by these signals.
[[nodiscard]] Summary summary_of(std::span<const NodeCounts> nodes);

}  // namespace outrigger::report
