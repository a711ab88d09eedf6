// Ends the job at the right place in MPI_Finalize.
#pragma once

namespace outrigger::mpi {

// Called in MPI_Init, after start_job(), before the program can set attributes of MPI_COMM_SELF.
void end_after_callbacks();

}  // namespace outrigger::mpi
