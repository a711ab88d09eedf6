// Communicators in a job that runs natively, where they have no state of the library's. Those of the same name and size
// are counted as one: nobody has given them ids.
#pragma once

#include "mpi/native/abi.hpp"
#include "mpi/report/counting.hpp"

namespace outrigger::mpi {

// Makes the attribute by which they are known. False: the MPI gives out none.
[[nodiscard]] bool register_native_communicators();
void forget_native_communicators();

// nullptr: not known, and counted with others.
[[nodiscard]] CommRecord* record_of_native(MPI_Comm comm);

}  // namespace outrigger::mpi
