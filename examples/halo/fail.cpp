#include "fail.hpp"

#include <mpi.h>

#include <cstdio>
#include <cstdlib>

namespace halo {

void fail(std::string_view message) {
  std::fprintf(stderr, "halo: %.*s\n", static_cast<int>(message.size()), message.data());
  MPI_Abort(MPI_COMM_WORLD, 2);
  std::abort();
}

void refuse(std::string_view message) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) std::fprintf(stderr, "halo: %.*s\n", static_cast<int>(message.size()), message.data());
  MPI_Finalize();
  std::exit(2);
}

}  // namespace halo
