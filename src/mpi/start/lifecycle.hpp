// Begin and end of a job.
#pragma once

namespace outrigger::mpi {

// Called after a successful PMPI_Init. Collective; all ranks get a job or none does, and one line gives the reason.
void start_job();
// True if nothing is offloaded, but all ranks have the library, and have agreed to that.
[[nodiscard]] bool together_without_job();
// Called in MPI_Finalize, while the MPI can still be called. Collective.
void end_job();

}  // namespace outrigger::mpi
