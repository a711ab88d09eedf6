// Our requests that only the native MPI waits for or tests. A program may have these functions from the MPI library
// itself (dlsym, as in Julia, numba and Python's ctypes), and so may a library with bindings of its own. This library
// does not see such calls, so the MPI's own progress has to finish the operation:
//
//   Open MPI        calls functions registered by opal_progress_register() whenever it makes progress
//   MPICH's family  calls functions of the request when it is tested or waited for (MPIX_Grequest_start)
//
// An MPI with neither waits for such a request for ever.
//
// Thread rule: any thread.
#pragma once

#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

struct Operation;

struct RequestFunctions {
  MPI_Grequest_query_function* query;
  MPI_Grequest_free_function* free;
  MPI_Grequest_cancel_function* cancel;
};

// Makes operation.own_request, whose functions get the operation. Returns the MPI's code.
[[nodiscard]] int start_request(const RequestFunctions& functions, Operation& operation);
// Before MPI_Finalize.
void end_native_waits();

}  // namespace outrigger::mpi
