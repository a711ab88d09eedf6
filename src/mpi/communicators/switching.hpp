// Switches offloading off and on while the program runs, on one communicator or on all.
//
// All ranks must decide alike for each call of a communicator, so they switch together, at the same place in its calls.
// The ranks agree on it by one small MPI_Allreduce, which also checks that they are at the same place:
//
//   for each communicator  rank 0 adds (size - 1) times a digest of its place in the calls, the others subtract one
//                          digest each
//
// If all members of each communicator have the same digest the sum is 0, modulo 2^64.
#pragma once

#include "mpi/communicators/comm_state.hpp"
#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

enum class Switched { done, disagreed, failed };

// Collective over the communicator, whose state this is. Nothing changes but when it is done.
[[nodiscard]] Switched switch_communicator(MPI_Comm comm, CommState& state, bool on);
// Collective over MPI_COMM_WORLD: all communicators, also later ones.
[[nodiscard]] Switched switch_everything(Job& job, bool on);

}  // namespace outrigger::mpi
