// The beginning and the end of a rank's trace.
#pragma once

#include <cstdint>
#include <string>

namespace outrigger::mpi {

struct Job;

// In MPI_Init, in a job that is offloaded: calls are noted from now on, and the keeper and the service process of this
// rank have the memory. Collective over the world, where there is to be a trace.
void start_trace(Job& job);

// The same in a job that runs natively. `together`: all ranks have the library; else each writes for itself.
struct NativeTrace {
  std::uint32_t world_rank = 0;
  std::uint32_t world_size = 0;
  std::string path;  // empty: there is to be none
  std::string because;
  bool together = false;
};
void start_native_trace(const NativeTrace& trace);

// In MPI_Finalize. Collective over the world, if the ranks trace together: world rank 0 writes the events of all. Does
// nothing where there is no trace.
void end_trace();
// The rank, or the library, ends the job now. Without a keeper that would, it writes what it has. Waits for nobody.
void end_trace_at_abort();

}  // namespace outrigger::mpi
