// What processes that the program starts are given.
#pragma once

namespace outrigger::mpi {

// Takes this library and the heap's out of LD_PRELOAD: programs that an MPI program starts are no ranks, and loading
// it into each would cost them a tenth of their start. Other entries stay. In MPI_Init, as the environment is the
// program's later.
void spare_children();

}  // namespace outrigger::mpi
