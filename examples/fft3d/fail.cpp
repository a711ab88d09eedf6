#include "fail.hpp"

#include <mpi.h>

#include <cstdio>
#include <cstdlib>

namespace fft3d {

void fail(std::string_view message) {
  std::fprintf(stderr, "fft3d: %.*s\n", static_cast<int>(message.size()), message.data());
  MPI_Abort(MPI_COMM_WORLD, 2);
  std::abort();
}

}  // namespace fft3d
