#include "sim/baselines/baselines.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace outrigger::sim::baselines {
namespace {

constexpr std::array kBaselines{
    Baseline{Collective::ialltoall, "linear", alltoall_linear, false},
    Baseline{Collective::ialltoall, "pairwise", alltoall_pairwise, false},
    Baseline{Collective::ialltoall, "bruck", alltoall_bruck, false},
    Baseline{Collective::iallgather, "linear", allgather_linear, false},
    Baseline{Collective::iallgather, "ring", allgather_ring, false},
    Baseline{Collective::iallgather, "recursive_doubling", allgather_recursive_doubling, true},
    Baseline{Collective::ibcast, "linear", bcast_linear, false},
    Baseline{Collective::ibcast, "binomial", bcast_binomial, false},
    Baseline{Collective::ibcast, "scatter_allgather", bcast_scatter_allgather, false},
    Baseline{Collective::iallreduce, "recursive_doubling", allreduce_recursive_doubling, false},
    Baseline{Collective::iallreduce, "binomial", allreduce_binomial, false},
    Baseline{Collective::iallreduce, "rabenseifner", allreduce_rabenseifner, false},
    Baseline{Collective::ialltoallv, "linear", alltoall_linear, false},
    Baseline{Collective::ialltoallv, "pairwise", alltoall_pairwise, false},
    Baseline{Collective::ialltoallw, "linear", alltoall_linear, false},
    Baseline{Collective::iallgatherv, "ring", allgather_ring, false},
    Baseline{Collective::ireduce, "binomial", reduce_binomial, false},
    Baseline{Collective::ireduce_scatter_block, "recursive_halving", reduce_scatter_halving, false},
    Baseline{Collective::ireduce_scatter_block, "pairwise", reduce_scatter_pairwise, false},
    Baseline{Collective::igather, "binomial", gather_binomial, false},
    Baseline{Collective::iscatter, "binomial", scatter_binomial, false},
    Baseline{Collective::ibarrier, "dissemination", barrier_dissemination, false},
    Baseline{Collective::ineighbor_alltoall, "linear", neighbor_linear, false},
    Baseline{Collective::ineighbor_alltoallv, "linear", neighbor_linear, false},
    Baseline{Collective::ineighbor_alltoallw, "linear", neighbor_linear, false},
    Baseline{Collective::ineighbor_allgather, "linear", neighbor_linear, false},
    Baseline{Collective::ineighbor_allgatherv, "linear", neighbor_linear, false},
};

// MPICH's defaults (MPIR_CVAR_ALLTOALL_SHORT_MSG_SIZE, ..._MEDIUM_MSG_SIZE, ALLGATHER_LONG_MSG_SIZE,
// BCAST_SHORT_MSG_SIZE, BCAST_MIN_PROCS, ALLREDUCE_SHORT_MSG_SIZE, REDUCE_SCATTER_COMMUTATIVE_LONG_MSG_SIZE).
constexpr std::uint64_t kShortAlltoall_bytes = 256;
constexpr std::uint64_t kMediumAlltoall_bytes = 32768;
constexpr std::uint64_t kLongAllgather_bytes = 524288;  // of the result
constexpr std::uint64_t kShortBcast_bytes = 12288;
constexpr std::uint64_t kShortAllreduce_bytes = 2048;
constexpr std::uint64_t kLongReduceScatter_bytes = 524288;  // of the vector
constexpr std::uint32_t kFewRanks = 8;

std::string_view name_in_mpich(Collective collective, std::uint32_t ranks, std::uint64_t bytes) {
  switch (collective) {
    case Collective::ialltoall:
      if (bytes <= kShortAlltoall_bytes && ranks >= kFewRanks) return "bruck";
      return bytes <= kMediumAlltoall_bytes ? "linear" : "pairwise";
    case Collective::iallgather:
      return std::has_single_bit(ranks) && bytes * ranks < kLongAllgather_bytes ? "recursive_doubling" : "ring";
    case Collective::ibcast: return bytes < kShortBcast_bytes || ranks < kFewRanks ? "binomial" : "scatter_allgather";
    case Collective::iallreduce: return bytes <= kShortAllreduce_bytes ? "recursive_doubling" : "rabenseifner";
    case Collective::ireduce_scatter_block:
      return bytes * ranks < kLongReduceScatter_bytes ? "recursive_halving" : "pairwise";
    default: return "";
  }
}

// Open MPI's thresholds for nonblocking calls (nbc_ibcast.c, nbc_iallreduce.c).
constexpr std::uint32_t kFewRanksOfBcast = 4;  // root sends to each
constexpr std::uint32_t kRanksOfRabenseifner = 4;
constexpr std::uint64_t kBytesOfRabenseifner = 65536;

std::string_view name_in_openmpi(Collective collective, std::uint32_t ranks, std::uint64_t bytes) {
  switch (collective) {
    case Collective::ialltoall:
    case Collective::iallgather: return "linear";
    case Collective::ibcast: return ranks <= kFewRanksOfBcast ? "linear" : "binomial";
    case Collective::iallreduce:
      return ranks < kRanksOfRabenseifner || bytes < kBytesOfRabenseifner ? "binomial" : "rabenseifner";
    default: return "";
  }
}

}  // namespace

std::span<const Baseline> all_baselines() {
  return kBaselines;
}

const Baseline* baseline_named(Collective collective, std::string_view name) {
  for (const Baseline& known : kBaselines) {
    if (known.collective == collective && known.name == name) return &known;
  }
  return nullptr;
}

const Baseline* default_baseline(model::MpiFamily family, Collective collective, std::uint32_t ranks,
                                 std::uint64_t bytes, bool blocking) {
  const std::string_view name = family == model::MpiFamily::openmpi && !blocking
                                    ? name_in_openmpi(collective, ranks, bytes)
                                    : name_in_mpich(collective, ranks, bytes);
  if (!name.empty()) return baseline_named(collective, name);
  const auto first = std::ranges::find(kBaselines, collective, &Baseline::collective);
  return first == kBaselines.end() ? nullptr : &*first;
}

}  // namespace outrigger::sim::baselines
