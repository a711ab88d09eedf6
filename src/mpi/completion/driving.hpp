// A request by which the native MPI is driven while a rank waits for what the MPI knows nothing of: asking for the
// state of one that is not complete makes it progress, and the request of a persistent collective that service
// processes run is not active to it.
#pragma once

#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

// Made when it is first asked for. Any thread.
[[nodiscard]] MPI_Request driving_request();
// Before MPI_Finalize.
void end_driving();

}  // namespace outrigger::mpi
