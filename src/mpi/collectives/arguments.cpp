#include "mpi/collectives/arguments.hpp"

namespace outrigger::mpi {

bool valid_type(const Job& job, MPI_Datatype type) {
  return type != constants().datatype_null && shape_of(job, type).committed;
}

bool valid_buffer(const Job& job, const void* buffer, MPI_Datatype type, bool has_data) {
  if (buffer == MPI_IN_PLACE) return false;
  if (buffer != nullptr || !has_data) return true;
  const TypeShape shape = shape_of(job, type);
  return !shape.predefined || shape.size == 0;
}

}  // namespace outrigger::mpi
