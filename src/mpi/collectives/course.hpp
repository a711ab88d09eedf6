// What a communicator's course (steer/plan/dispatch_plan.hpp) says of a call.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mpi/collectives/arguments.hpp"
#include "mpi/collectives/post.hpp"
#include "mpi/communicators/comm_state.hpp"
#include "mpi/report/report.hpp"
#include "protocol/collective.hpp"
#include "protocol/options/selection.hpp"
#include "steer/plan/decision.hpp"

namespace outrigger::mpi {

struct Job;

struct Steered {
  NativeReason native = NativeReason::none;  // why it is
  Algorithm algorithm = Algorithm::ring_pull;
  bool for_a_spell = false;  // native: as long as the course stays what it is
};
// Of one that no rule of the user's decides. Counts it, unless it has been, and has it measured where two ways are
// tried in turn. The same on all ranks. `table`: what the built-in table says of the call.
[[nodiscard]] Steered ask_course(const Job& job, CommState& comm, steer::CallKey key, const Decision& table,
                                 bool counted);

// Of one that a rule offloads. Counts it, unless it has been. The same on all ranks: service processes have died so
// often that nothing of the communicator is offloaded from some call on.
[[nodiscard]] bool services_fail(const Job& job, CommState& comm, bool counted);

// The call is native for small blocks, of which this rank's largest has so many bytes.
void note_largest_block(const Job& job, CommState& comm, Collective collective, std::uint64_t bytes);

// The most bytes that this rank receives from one peer, or 0 where the arguments are of no use.
template <class Count>
[[nodiscard]] std::uint64_t largest_block(const Job& job, const Count* counts, MPI_Datatype type, std::uint32_t peers) {
  if (counts == nullptr || !valid_type(job, type)) return 0;
  const Count most = *std::max_element(counts, counts + peers);
  return most <= 0 ? 0 : bytes_in(most, shape_of(job, type));
}
template <class Count>
[[nodiscard]] std::uint64_t largest_block(const Job& job, const Count* counts, const MPI_Datatype* types,
                                          std::uint32_t peers) {
  std::uint64_t most = 0;
  for (std::uint32_t i = 0; counts != nullptr && types != nullptr && i < peers; ++i) {
    if (counts[i] > 0 && valid_type(job, types[i])) most = std::max(most, bytes_in(counts[i], shape_of(job, types[i])));
  }
  return most;
}

}  // namespace outrigger::mpi
