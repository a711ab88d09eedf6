// Ranks that share cores give them away while they wait inside their MPI, in blocking calls of all kinds. Nothing
// changes in the calls themselves: the MPI's own progress loop yields, or sleeps for a short time.
#pragma once

#include "mpi/job/job.hpp"

namespace outrigger::mpi {

// Before MPI_Init of the MPI.
void prepare_polite_waits();
// In MPI_Init, by the MPI's thread. Decides by OUTRIGGER_WAIT and by the rank's cores; where these are its own, waits
// become polite as long as others use them. Local.
void begin_polite_waits(const Job& job);
// In MPI_Finalize. MPIs check there how long they have polled.
void end_polite_waits();

}  // namespace outrigger::mpi
