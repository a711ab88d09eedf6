// Counting without a report, because the program or a tool has asked for counters.
//
// Thread rule: any thread.
#pragma once

namespace outrigger::mpi {

// Counts from now on, or from MPI_Init on. False: MPI has ended, or this program's calls are not intercepted.
[[nodiscard]] bool count_on_demand();

// At the end of MPI_Init, in any kind of job.
void begin_wanted_counting();
// In MPI_Finalize.
void end_counting_on_demand();

}  // namespace outrigger::mpi
