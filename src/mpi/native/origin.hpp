// Detects calls by the MPI library itself: MPI-IO and some collective components call public MPI functions from inside.
// Those calls are for the native MPI.
#pragma once

namespace outrigger::mpi {

// True if `return_address` is in the loaded libmpi or one of its plugins, or if a profiling tool calls on behalf of
// one. Any thread; no allocation.
[[nodiscard]] bool called_by_mpi(const void* return_address);

// During its life all calls of this thread count as calls by the MPI library: a tool is in between.
class PassingForMpi {
 public:
  PassingForMpi();
  PassingForMpi(const PassingForMpi&) = delete;
  PassingForMpi& operator=(const PassingForMpi&) = delete;
  ~PassingForMpi();
};

}  // namespace outrigger::mpi
