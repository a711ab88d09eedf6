// Which of MPI's operations and datatypes service processes reduce: the predefined operations, of predefined types for
// which the standard defines them. Everything else is the MPI's: operations and types of the program's own, and types
// that not every MPI has.
#pragma once

#include <optional>

#include "mpi/native/abi.hpp"
#include "mpi/types/datatype.hpp"
#include "protocol/reduction.hpp"

namespace outrigger::mpi {

// Nothing: natively. `shape` is the type's. All ranks of a call, which name one operation and one type, come to the
// same. Any thread.
[[nodiscard]] std::optional<Reduction> reduction_of(MPI_Op operation, MPI_Datatype type, const TypeShape& shape);

// Elements as they are handed over: whole, with the gaps that some have.
[[nodiscard]] TypeShape shape_of(const Reduction& reduction);

}  // namespace outrigger::mpi
