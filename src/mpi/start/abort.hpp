// MPI_Abort under MPIs that wait for other ranks in it.
#pragma once

#include "mpi/native/real.hpp"

namespace outrigger::mpi {

// The communicator for the MPI's MPI_Abort: MPI_COMM_WORLD if the program's might wait for ranks outside MPI. Handles
// as words, as in the call.
[[nodiscard]] Word communicator_to_abort(Word comm);

}  // namespace outrigger::mpi
