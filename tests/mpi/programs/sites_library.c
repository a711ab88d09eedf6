#include "sites_library.h"

// More frames of the library.
__attribute__((noinline)) static int inner(const int* sent, int* received, int count, MPI_Comm comm) {
  const int code = MPI_Alltoall(sent, count, MPI_INT, received, count, MPI_INT, comm);  // place: library
  __asm__ volatile("");
  return code;
}

void sites_library_exchange(const int* sent, int* received, int count, MPI_Comm comm) {
  if (inner(sent, received, count, comm) != MPI_SUCCESS) MPI_Abort(comm, 1);
}
