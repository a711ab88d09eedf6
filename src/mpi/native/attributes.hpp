// Callbacks of attributes.
#pragma once

#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

// A duplicate of a communicator does not get the attribute.
inline int attribute_not_copied(MPI_Comm /*comm*/, int /*keyval*/, void* /*extra*/, void* /*value*/, void* /*copy*/,
                                int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

}  // namespace outrigger::mpi
