// Collective algorithms that native MPIs have in common: the baseline of each comparison.
//
// Each is one rank's part, as a coroutine, in a file of its own that gives the source. `bytes` is the size of a block;
// for a broadcast, reduce and allreduce, of the whole buffer. They run as MPIs run a nonblocking collective's schedule:
// a step begins when the previous one has ended and the rank is inside an MPI call.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/core/task.hpp"
#include "protocol/collective.hpp"
#include "sim/baselines/member.hpp"

namespace outrigger::sim::baselines {

using engine::Task;
using AlgorithmFunction = Host::Algorithm;

Task alltoall_linear(Member& member, std::uint64_t bytes, std::uint32_t root);
Task alltoall_pairwise(Member& member, std::uint64_t bytes, std::uint32_t root);
Task alltoall_bruck(Member& member, std::uint64_t bytes, std::uint32_t root);
Task allgather_linear(Member& member, std::uint64_t bytes, std::uint32_t root);
Task allgather_ring(Member& member, std::uint64_t bytes, std::uint32_t root);
Task allgather_recursive_doubling(Member& member, std::uint64_t bytes, std::uint32_t root);
Task bcast_linear(Member& member, std::uint64_t bytes, std::uint32_t root);
Task bcast_binomial(Member& member, std::uint64_t bytes, std::uint32_t root);
Task bcast_scatter_allgather(Member& member, std::uint64_t bytes, std::uint32_t root);
Task allreduce_recursive_doubling(Member& member, std::uint64_t bytes, std::uint32_t root);
Task allreduce_binomial(Member& member, std::uint64_t bytes, std::uint32_t root);
Task allreduce_rabenseifner(Member& member, std::uint64_t bytes, std::uint32_t root);
Task reduce_binomial(Member& member, std::uint64_t bytes, std::uint32_t root);
Task reduce_scatter_halving(Member& member, std::uint64_t bytes, std::uint32_t root);
Task reduce_scatter_pairwise(Member& member, std::uint64_t bytes, std::uint32_t root);
Task gather_binomial(Member& member, std::uint64_t bytes, std::uint32_t root);
Task scatter_binomial(Member& member, std::uint64_t bytes, std::uint32_t root);
Task barrier_dissemination(Member& member, std::uint64_t bytes, std::uint32_t root);
Task neighbor_linear(Member& member, std::uint64_t bytes, std::uint32_t root);

struct Baseline {
  Collective collective;
  std::string_view name;
  AlgorithmFunction function;
  bool power_of_two;  // needs a power of two of ranks
};
[[nodiscard]] std::span<const Baseline> all_baselines();

// nullptr if the collective has no baseline of that name.
[[nodiscard]] const Baseline* baseline_named(Collective collective, std::string_view name);

// The algorithm that an MPI uses by default for this number of ranks and bytes; nullptr if none is modelled. MPICH 4:
// by the MPIR_CVAR_..._MSG_SIZE settings of src/mpi/coll. Open MPI 4.1: as ompi/mca/coll/libnbc/nbc_i*.c decide for
// nonblocking calls, except that the binomial tree replaces its chain for long broadcasts of more than four ranks. For
// its blocking calls MPICH's algorithms are used, since coll/tuned has the same or similar ones.
[[nodiscard]] const Baseline* default_baseline(model::MpiFamily family, Collective collective, std::uint32_t ranks,
                                               std::uint64_t bytes, bool blocking);

}  // namespace outrigger::sim::baselines
