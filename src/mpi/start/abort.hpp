// MPI_Abort under MPIs that wait for others in it.
#pragma once

#include "mpi/native/real.hpp"

namespace outrigger::mpi {

// The communicator to be given to the MPI's MPI_Abort in place of the program's: MPI_COMM_WORLD where else it might
// wait for ranks that are not inside MPI. Handles as words, as the call has them.
[[nodiscard]] Word communicator_to_abort(Word comm);

}  // namespace outrigger::mpi
