// Begin and end of a rank's trace.
#pragma once

#include <cstdint>
#include <string>

namespace outrigger::mpi {

struct Job;

// Called in MPI_Init of an offloaded job: calls are recorded from now on, and the keeper and this rank's service
// process have the memory. Collective over the world, if there is to be a trace.
void start_trace(Job& job);

// The same in a job that runs natively. `together`: all ranks have the library; else each writes its own file.
struct NativeTrace {
  std::uint32_t world_rank = 0;
  std::uint32_t world_size = 0;
  std::string path;  // empty: no trace
  std::string because;
  bool together = false;
};
void start_native_trace(const NativeTrace& trace);

// Called in MPI_Finalize. If the ranks trace together, collective over the world: world rank 0 writes the events of
// all. Does nothing without a trace.
void end_trace();
// The rank, or the library, ends the job now. Writes the events if no keeper will. Waits for no other process.
void end_trace_at_abort();

}  // namespace outrigger::mpi
