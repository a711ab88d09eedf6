// Records of communicators without a CommState: all in a native job, otherwise those of one rank, and unknown ones.
// They are attached as an attribute.
#pragma once

#include "mpi/native/abi.hpp"
#include "mpi/report/counting.hpp"

namespace outrigger::mpi {

// Makes the attribute. False: the MPI provides none.
[[nodiscard]] bool register_comm_records();
void forget_comm_records();

// The attached record; attaches the result of `make` if there is none.
[[nodiscard]] CommRecord& attached_record(MPI_Comm comm, CommRecord& (*make)(MPI_Comm));

// In a native job. Communicators of the same name and size count as one, as they have no ids. nullptr: nothing is
// counted.
[[nodiscard]] CommRecord* record_by_name(MPI_Comm comm);

}  // namespace outrigger::mpi
