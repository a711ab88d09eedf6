// Who calls: the program, or the MPI library itself? MPI-IO and some collective components call public MPI functions
// from inside; those calls belong to the native MPI.
#pragma once

namespace outrigger::mpi {

// True when `return_address` lies in the loaded libmpi or in one of its plugins. Any thread; no allocation.
[[nodiscard]] bool called_by_mpi(const void* return_address);

}  // namespace outrigger::mpi
