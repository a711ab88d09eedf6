// The beginning and the end of the job that the library sees.
#pragma once

namespace outrigger::mpi {

// After a successful PMPI_Init. Collective; all ranks get a job or none does. Says in one line why not.
void start_job();
// In MPI_Finalize, while the MPI can still be called. Collective.
void end_job();

}  // namespace outrigger::mpi
