// Counting because the program or a tool has asked for counters, without a report.
//
// Thread rule: any thread.
#pragma once

namespace outrigger::mpi {

// Counts from now on, or from MPI_Init on. False: MPI has ended, or calls of this one are not seen.
[[nodiscard]] bool count_on_demand();

// At the end of MPI_Init, whatever became of the job.
void begin_wanted_counting();
// In MPI_Finalize.
void end_counting_on_demand();

}  // namespace outrigger::mpi
