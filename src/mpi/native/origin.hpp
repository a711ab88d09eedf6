// Who calls: the program, or the MPI library itself? MPI-IO and some collective components call public MPI functions
// from inside; those calls belong to the native MPI.
#pragma once

namespace outrigger::mpi {

// True when `return_address` lies in the loaded libmpi or in one of its plugins, or when a profiling tool calls on
// behalf of one. Any thread; no allocation.
[[nodiscard]] bool called_by_mpi(const void* return_address);

// While it lives, all that this thread calls is called by the MPI library: a tool is between it and us.
class PassingForMpi {
 public:
  PassingForMpi();
  PassingForMpi(const PassingForMpi&) = delete;
  PassingForMpi& operator=(const PassingForMpi&) = delete;
  ~PassingForMpi();
};

}  // namespace outrigger::mpi
