#include "mpi/native/constants.hpp"

#include <array>
#include <string_view>

#include "mpi/native/real.hpp"

namespace outrigger::mpi::detail {
namespace {

constexpr std::size_t kVersionText = 8192;  // the longest that any ABI's MPI_MAX_LIBRARY_VERSION_STRING allows

// The loaded MPI, by what it says of itself: under MPICH's ABI and the standard one it can be another's.
const char* name_of_mpi() {
  static std::array<char, kVersionText> text{};
  int length = 0;
  if (real().Get_library_version(text.data(), &length) != MPI_SUCCESS) return kAbiName;
  const std::string_view version(text.data());
  if (version.starts_with("Open MPI")) return "Open MPI";
  if (version.starts_with("Intel")) return "Intel MPI";
  return version.starts_with("MPICH") ? "MPICH" : kAbiName;
}

}  // namespace

constinit Constants constants{};

void fill_constants() {
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
  constants.errors_return = MPI_ERRORS_RETURN;
  constants.mpi_name = name_of_mpi();
  constants.rejects_aliases = std::string_view(constants.mpi_name) != "Open MPI";
}

}  // namespace outrigger::mpi::detail
