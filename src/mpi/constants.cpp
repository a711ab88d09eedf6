#include "mpi/constants.hpp"

namespace outrigger::mpi::detail {

constinit Constants constants{};

void fill_constants() {
  constants.comm_world = MPI_COMM_WORLD;
  constants.comm_null = MPI_COMM_NULL;
  constants.request_null = MPI_REQUEST_NULL;
  constants.datatype_null = MPI_DATATYPE_NULL;
  constants.group_null = MPI_GROUP_NULL;
  constants.info_null = MPI_INFO_NULL;
  constants.byte = MPI_BYTE;
  constants.int32 = MPI_INT32_T;
  constants.min = MPI_MIN;
  constants.max = MPI_MAX;
  constants.errors_return = MPI_ERRORS_RETURN;
}

}  // namespace outrigger::mpi::detail
