// Environment of processes that the program starts.
#pragma once

namespace outrigger::mpi {

// Removes this library and the heap from LD_PRELOAD, and keeps other entries. Children of an MPI program are not ranks,
// and loading the library would cost them a tenth of their start. Called in MPI_Init: later the environment belongs to
// the program.
void spare_children();

}  // namespace outrigger::mpi
