// Lets ranks on several machines leave MPI_Finalize together.
#pragma once

namespace outrigger::mpi {

// True if ranks are on several machines and finalize_barrier() has something to do. Collective over the world.
[[nodiscard]] bool spans_machines();

// Called after the job's end, before PMPI_Finalize, in jobs of several machines. Collective over the world.
void finalize_barrier();

}  // namespace outrigger::mpi
