// What the starting calls of all collectives have in common: offload or native, direct or staged, hand over.
#pragma once

#include <optional>

#include "mpi/abi.hpp"
#include "mpi/comm_state.hpp"
#include "mpi/operation.hpp"
#include "protocol/collective.hpp"

namespace outrigger::mpi {

struct Job;

// The communicator's state when the call is to be offloaded, else nullptr (and the reason is counted). Uses only what
// all ranks of the communicator know alike. `block_bytes`: where MPI makes it equal on all ranks.
[[nodiscard]] CommState* offload_on(const Job& job, MPI_Comm comm, Collective collective,
                                    std::optional<std::uint64_t> block_bytes);

// With comm, collective, receive and (unless in place) send filled in. Makes the request.
void post_operation(Job& job, Operation& operation);

}  // namespace outrigger::mpi
