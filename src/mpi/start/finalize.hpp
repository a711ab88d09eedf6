// Where in MPI_Finalize the job ends.
#pragma once

namespace outrigger::mpi {

// In MPI_Init, after start_job(), before the program can set attributes of MPI_COMM_SELF.
void end_after_callbacks();

}  // namespace outrigger::mpi
