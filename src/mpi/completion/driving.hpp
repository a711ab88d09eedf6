// A request that drives the native MPI while a rank waits for events outside of it. Testing an incomplete request makes
// the MPI progress; the request of a persistent collective that service processes run is inactive for it.
#pragma once

#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

// Made at first use. Any thread.
[[nodiscard]] MPI_Request driving_request();
// Before MPI_Finalize.
void end_driving();

}  // namespace outrigger::mpi
