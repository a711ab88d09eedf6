// Communicators on which the program has switched the library off (info key outrigger), in a job without service
// processes. The mark is an attribute, which duplicates inherit. In other jobs CommState knows it.
//
// Thread rule: as for the communicator's collectives.
#pragma once

#include "mpi/job/job.hpp"
#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

// False: the MPI gives out no attributes.
[[nodiscard]] bool register_off_marks(Job& job);
// Before MPI_Finalize.
void forget_off_marks(Job& job);

[[nodiscard]] bool is_marked_off(const Job& job, MPI_Comm comm);
// All its ranks do it at the same place in its calls.
void mark_off(const Job& job, MPI_Comm comm, bool off);

}  // namespace outrigger::mpi
