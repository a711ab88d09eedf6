// Predefined handles of the loaded MPI. Filled once, when the functions are found; constant afterwards.
#pragma once

#include "mpi/native/abi.hpp"

namespace outrigger::mpi {

struct Constants {
  MPI_Comm comm_world{};
  MPI_Comm comm_self{};
  MPI_Comm comm_null{};
  MPI_Request request_null{};
  MPI_Datatype datatype_null{};
  MPI_Group group_null{};
  MPI_Info info_null{};
  MPI_Datatype byte{};
  MPI_Datatype int32{};
  MPI_Datatype uint64{};
  MPI_Datatype character{};
  MPI_Datatype unsigned_long_long{};
  MPI_Datatype double_precision{};
  MPI_Op sum{};
  MPI_Op min{};
  MPI_Errhandler errors_return{};
  const char* mpi_name = nullptr;  // name of the loaded MPI, for messages
  bool rejects_aliases = false;    // the loaded MPI rejects the same buffer on both sides of a collective
};

namespace detail {
extern constinit Constants constants;
void fill_constants(const char* mpi_name);
}  // namespace detail

[[nodiscard]] inline const Constants& constants() {
  return detail::constants;
}

}  // namespace outrigger::mpi
