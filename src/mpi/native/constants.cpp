#include "mpi/native/constants.hpp"

#include <string_view>

namespace outrigger::mpi::detail {
constinit Constants constants{};

void fill_constants(const char* mpi_name) {
  constants.comm_world = MPI_COMM_WORLD;
  constants.comm_self = MPI_COMM_SELF;
  constants.comm_null = MPI_COMM_NULL;
  constants.request_null = MPI_REQUEST_NULL;
  constants.datatype_null = MPI_DATATYPE_NULL;
  constants.group_null = MPI_GROUP_NULL;
  constants.info_null = MPI_INFO_NULL;
  constants.byte = MPI_BYTE;
  constants.int32 = MPI_INT32_T;
  constants.uint64 = MPI_UINT64_T;
  constants.character = MPI_CHAR;
  constants.unsigned_long_long = MPI_UNSIGNED_LONG_LONG;
  constants.double_precision = MPI_DOUBLE;
  constants.sum = MPI_SUM;
  constants.min = MPI_MIN;
  constants.errors_return = MPI_ERRORS_RETURN;
  constants.mpi_name = mpi_name;
  constants.rejects_aliases = std::string_view(constants.mpi_name) != "Open MPI";
}

}  // namespace outrigger::mpi::detail
