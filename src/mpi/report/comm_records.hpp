// Records of communicators that have no state of the library's: all of a job that runs natively, else those of one
// rank, and those that the library does not know. They hang on an attribute.
#pragma once

#include "mpi/native/abi.hpp"
#include "mpi/report/counting.hpp"

namespace outrigger::mpi {

// Makes the attribute. False: the MPI gives out none.
[[nodiscard]] bool register_comm_records();
void forget_comm_records();

// Returns what is attached to the communicator, and attaches what `make` returns where there is nothing.
[[nodiscard]] CommRecord& attached_record(MPI_Comm comm, CommRecord& (*make)(MPI_Comm));

// In a job that runs natively. Communicators of the same name and size are counted as one: nobody has given them ids.
// nullptr: nothing is counted.
[[nodiscard]] CommRecord* record_by_name(MPI_Comm comm);

}  // namespace outrigger::mpi
