// Collectives that can be offloaded, their algorithms, and the results of operations. The numbers are part of the wire
// format: add at the end, never renumber.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "protocol/reduction.hpp"

namespace outrigger {

enum class Collective : std::uint16_t {
  ialltoall = 1,
  ialltoallv = 2,
  ialltoallw = 3,
  iallgather = 4,
  iallgatherv = 5,
  ibcast = 6,
  iallreduce = 7,
  ireduce = 8,
  ireduce_scatter_block = 9,
  igather = 10,
  igatherv = 11,
  iscatter = 12,
  iscatterv = 13,
  ibarrier = 14,
  ireduce_scatter = 15,
  iscan = 16,
  iexscan = 17,
  ineighbor_alltoall = 18,
  ineighbor_alltoallv = 19,
  ineighbor_alltoallw = 20,
  ineighbor_allgather = 21,
  ineighbor_allgatherv = 22,
};

enum class Algorithm : std::uint16_t {
  ring_pull = 1,
  scatter_dest = 2,
  flat = 3,
  node_pull = 4,
  hierarchical = 5,
  sliced_pull = 6,
  tree = 7,
  chain = 8,
  rooted = 9,
};

enum class CompletionStatus : std::uint32_t {
  ok = 0,
  truncated = 1,        // a peer sent more bytes than this rank has room for (MPI_ERR_TRUNCATE)
  mismatch = 2,         // ranks disagree on collective, algorithm, root or configuration
  rejected = 3,         // the service process rejected the post (malformed, out of bounds)
  memory_fault = 4,     // a named range could not be read or written
  peer_lost = 5,        // a rank or service process that this operation needs is gone
  passed_natively = 6,  // a rank has left its call to its MPI: the counts differ between ranks (MPI_ERR_TRUNCATE)
};

struct AlgorithmName {
  Algorithm algorithm;
  std::string_view name;
};
inline constexpr std::array kAlgorithms{
    AlgorithmName{Algorithm::ring_pull, "ring_pull"},
    AlgorithmName{Algorithm::scatter_dest, "scatter_dest"},
    AlgorithmName{Algorithm::flat, "flat"},
    AlgorithmName{Algorithm::node_pull, "node_pull"},
    AlgorithmName{Algorithm::hierarchical, "hierarchical"},
    AlgorithmName{Algorithm::sliced_pull, "sliced_pull"},
    AlgorithmName{Algorithm::tree, "tree"},
    AlgorithmName{Algorithm::chain, "chain"},
    AlgorithmName{Algorithm::rooted, "rooted"},
};

// Index in kAlgorithms, which is in the order of the numbers.
[[nodiscard]] constexpr std::size_t index_of(Algorithm algorithm) {
  return static_cast<std::size_t>(algorithm) - 1;
}
static_assert([] {
  for (std::size_t i = 0; i < kAlgorithms.size(); ++i) {
    if (index_of(kAlgorithms[i].algorithm) != i) return false;
  }
  return true;
}());

// One row per collective. Its algorithms: the last is repeated to fill the row.
struct CollectiveRow {
  Collective collective;
  std::string_view name;
  // The standard makes all blocks, or their mean, equally long and known to all ranks. (Neighbor collectives too, but
  // ranks without neighbors need not know it.)
  bool one_size;
  std::array<Algorithm, 3> algorithms;
};
namespace detail {
using Algorithms = std::array<Algorithm, 3>;
inline constexpr Algorithms kAllToAlls{Algorithm::ring_pull, Algorithm::scatter_dest, Algorithm::scatter_dest};
inline constexpr Algorithms kAllGathers{Algorithm::flat, Algorithm::node_pull, Algorithm::hierarchical};
inline constexpr Algorithms kBroadcasts{Algorithm::flat, Algorithm::hierarchical, Algorithm::hierarchical};
inline constexpr Algorithms kPulls{Algorithm::ring_pull, Algorithm::ring_pull, Algorithm::ring_pull};
inline constexpr Algorithms kBarriers{Algorithm::tree, Algorithm::tree, Algorithm::tree};
inline constexpr Algorithms kPrefixes{Algorithm::chain, Algorithm::chain, Algorithm::chain};
inline constexpr Algorithms kAllReduces{Algorithm::sliced_pull, Algorithm::rooted, Algorithm::rooted};
inline constexpr Algorithms kAnyReduces{Algorithm::sliced_pull, Algorithm::sliced_pull, Algorithm::sliced_pull};
}  // namespace detail
inline constexpr std::array kCollectives{
    CollectiveRow{Collective::ialltoall, "ialltoall", true, detail::kAllToAlls},
    CollectiveRow{Collective::ialltoallv, "ialltoallv", false, detail::kAllToAlls},
    CollectiveRow{Collective::ialltoallw, "ialltoallw", false, detail::kAllToAlls},
    CollectiveRow{Collective::iallgather, "iallgather", true, detail::kAllGathers},
    CollectiveRow{Collective::iallgatherv, "iallgatherv", false, detail::kAllGathers},
    CollectiveRow{Collective::ibcast, "ibcast", true, detail::kBroadcasts},
    CollectiveRow{Collective::iallreduce, "iallreduce", true, detail::kAllReduces},
    CollectiveRow{Collective::ireduce, "ireduce", true, detail::kAnyReduces},
    CollectiveRow{Collective::ireduce_scatter_block, "ireduce_scatter_block", true, detail::kAnyReduces},
    CollectiveRow{Collective::igather, "igather", true, detail::kPulls},
    CollectiveRow{Collective::igatherv, "igatherv", false, detail::kPulls},
    CollectiveRow{Collective::iscatter, "iscatter", true, detail::kPulls},
    CollectiveRow{Collective::iscatterv, "iscatterv", false, detail::kPulls},
    CollectiveRow{Collective::ibarrier, "ibarrier", true, detail::kBarriers},
    CollectiveRow{Collective::ireduce_scatter, "ireduce_scatter", true, detail::kAnyReduces},
    CollectiveRow{Collective::iscan, "iscan", true, detail::kPrefixes},
    CollectiveRow{Collective::iexscan, "iexscan", true, detail::kPrefixes},
    CollectiveRow{Collective::ineighbor_alltoall, "ineighbor_alltoall", false, detail::kPulls},
    CollectiveRow{Collective::ineighbor_alltoallv, "ineighbor_alltoallv", false, detail::kPulls},
    CollectiveRow{Collective::ineighbor_alltoallw, "ineighbor_alltoallw", false, detail::kPulls},
    CollectiveRow{Collective::ineighbor_allgather, "ineighbor_allgather", false, detail::kPulls},
    CollectiveRow{Collective::ineighbor_allgatherv, "ineighbor_allgatherv", false, detail::kPulls},
};

// Index of its row; rows are in the order of the numbers.
[[nodiscard]] constexpr std::size_t index_of(Collective collective) {
  return static_cast<std::size_t>(collective) - 1;
}
[[nodiscard]] constexpr bool is_known(Collective collective) {
  return index_of(collective) < kCollectives.size();
}
static_assert([] {
  for (std::size_t i = 0; i < kCollectives.size(); ++i) {
    if (index_of(kCollectives[i].collective) != i) return false;
  }
  return true;
}());

// A reduction in which each rank has its own result: of the ranks up to it, or before it.
[[nodiscard]] constexpr bool is_prefix(Collective collective) {
  return collective == Collective::iscan || collective == Collective::iexscan;
}

// Combines the ranks' contributions; operation and type are separate fields.
[[nodiscard]] constexpr bool is_reduction(Collective collective) {
  return collective == Collective::iallreduce || collective == Collective::ireduce ||
         collective == Collective::ireduce_scatter_block || collective == Collective::ireduce_scatter ||
         is_prefix(collective);
}

[[nodiscard]] constexpr Algorithm default_algorithm(Collective collective) {
  return kCollectives[index_of(collective)].algorithms[0];
}

// True if the collective exists and has this algorithm.
[[nodiscard]] constexpr bool has_algorithm(Collective collective, Algorithm algorithm) {
  if (!is_known(collective)) return false;
  for (const Algorithm known : kCollectives[index_of(collective)].algorithms) {
    if (known == algorithm) return true;
  }
  return false;
}

[[nodiscard]] constexpr std::string_view name_of(Collective collective) {
  return is_known(collective) ? kCollectives[index_of(collective)].name : "unknown";
}

[[nodiscard]] constexpr std::string_view name_of(Algorithm algorithm) {
  for (const AlgorithmName& known : kAlgorithms) {
    if (known.algorithm == algorithm) return known.name;
  }
  return "unknown";
}

[[nodiscard]] constexpr std::string_view name_of(CompletionStatus status) {
  switch (status) {
    case CompletionStatus::ok: return "ok";
    case CompletionStatus::truncated: return "message truncated";
    case CompletionStatus::mismatch: return "ranks disagree about the collective";
    case CompletionStatus::rejected: return "request rejected by the service process";
    case CompletionStatus::memory_fault: return "memory not accessible";
    case CompletionStatus::peer_lost: return "peer lost";
    case CompletionStatus::passed_natively: return "the counts differ between ranks";
  }
  return "unknown";
}

[[nodiscard]] constexpr std::optional<Algorithm> algorithm_named(std::string_view name) {
  for (const AlgorithmName& known : kAlgorithms) {
    if (known.name == name) return known.algorithm;
  }
  return std::nullopt;
}

[[nodiscard]] constexpr std::optional<Collective> collective_named(std::string_view name) {
  for (const CollectiveRow& row : kCollectives) {
    if (row.name == name) return row.collective;
  }
  return std::nullopt;
}

// One rank, the root, sends to all others.
[[nodiscard]] constexpr bool is_rooted(Collective collective) {
  return collective == Collective::ibcast || collective == Collective::iscatter || collective == Collective::iscatterv;
}

// All others send to one rank, the root.
[[nodiscard]] constexpr bool is_for_root(Collective collective) {
  return collective == Collective::ireduce || collective == Collective::igather || collective == Collective::igatherv;
}

// Each rank exchanges blocks with some ranks, its neighbors. Only the rank itself knows them.
[[nodiscard]] constexpr bool is_of_neighbors(Collective collective) {
  switch (collective) {
    case Collective::ineighbor_alltoall:
    case Collective::ineighbor_alltoallv:
    case Collective::ineighbor_alltoallw:
    case Collective::ineighbor_allgather:
    case Collective::ineighbor_allgatherv: return true;
    default: return false;
  }
}

// True if ranks get blocks from ranks other than their sources.
[[nodiscard]] constexpr bool passes_on(Collective collective, Algorithm algorithm) {
  return algorithm == Algorithm::node_pull || algorithm == Algorithm::hierarchical ||
         collective == Collective::ibcast || is_prefix(collective) ||
         (collective == Collective::iallreduce && algorithm == Algorithm::sliced_pull);
}

// Digest of the values on which all ranks of a group must agree. Every announcement has it, so a difference is an
// error, not a hang.
[[nodiscard]] constexpr std::uint64_t operation_digest(Collective collective, Algorithm algorithm, std::uint32_t root,
                                                       std::uint32_t group_size, std::uint64_t configuration) {
  std::uint64_t digest = 0xCBF29CE484222325ULL;
  const auto mix = [&digest](std::uint64_t word) {
    digest ^= word;
    digest *= 0x100000001B3ULL;
    digest ^= digest >> 29;
  };
  mix(static_cast<std::uint64_t>(collective));
  mix(static_cast<std::uint64_t>(algorithm));
  mix(root);
  mix(group_size);
  mix(configuration);
  return digest;
}

// The same for a reduction of `bytes` bytes, which MPI makes equal on all ranks.
[[nodiscard]] constexpr std::uint64_t reduction_digest(std::uint64_t operation_digest, const Reduction& reduction,
                                                       std::uint64_t bytes) {
  std::uint64_t digest = operation_digest;
  for (const std::uint64_t word :
       {static_cast<std::uint64_t>(reduction.operation), static_cast<std::uint64_t>(reduction.type), bytes}) {
    digest = (digest ^ word) * 0x100000001B3ULL;
    digest ^= digest >> 29;
  }
  return digest;
}

}  // namespace outrigger
