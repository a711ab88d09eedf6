// Which reductions ranks may do by themselves: those that give the bits that the MPI gives.
//
// Floating-point sums and products depend on the order in which an MPI adds. A reduction whose order is not known is
// native.
#pragma once

#include "protocol/reduction.hpp"

namespace outrigger::mpi {

// The result has the MPI's bits in whatever order contributions are reduced.
[[nodiscard]] bool has_native_bits(const Reduction& reduction);

}  // namespace outrigger::mpi
