// Prints the error class that erroneous calls return under MPI_ERRORS_RETURN. The output must be the same native and
// offloaded, and an erroneous call must leave everything usable.
//
//   errors

#include <mpi.h>

#include <cstdio>
#include <vector>

namespace {

int rank = 0;
int size = 0;

void report(const char* what, int code) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  // Only rank 0 prints: all ranks make the same mistakes.
  if (rank == 0) std::printf("%s: class %d\n", what, error_class);
}

int handler_calls = 0;
void count_call(MPI_Comm*, int*, ...) {
  ++handler_calls;
}

// A right operation afterwards, on the same communicator.
void still_works(MPI_Comm communicator) {
  std::vector<int> send(static_cast<std::size_t>(size), rank);
  std::vector<int> receive(static_cast<std::size_t>(size), -1);
  MPI_Request request;
  MPI_Ialltoall(send.data(), 1, MPI_INT, receive.data(), 1, MPI_INT, communicator, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int peer = 0; peer < size; ++peer) {
    if (receive[static_cast<std::size_t>(peer)] != peer) {
      std::printf("errors: rank %d: an operation after the errors gave wrong data\n", rank);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm communicator;
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);

  const auto n = static_cast<std::size_t>(size);
  std::vector<int> send(n), receive(n), counts(n, 1), negative(n, 1), displacements(n);
  for (std::size_t i = 0; i < n; ++i) displacements[i] = static_cast<int>(i);
  negative[n - 1] = -1;
  MPI_Datatype uncommitted;
  MPI_Type_contiguous(1, MPI_INT, &uncommitted);
  MPI_Request request = MPI_REQUEST_NULL;
  int* s = send.data();
  int* r = receive.data();
  const MPI_Comm c = communicator;

  report("negative send count", MPI_Ialltoall(s, -1, MPI_INT, r, 1, MPI_INT, c, &request));
  report("negative receive count", MPI_Ialltoall(s, 1, MPI_INT, r, -1, MPI_INT, c, &request));
  report("null send type", MPI_Ialltoall(s, 1, MPI_DATATYPE_NULL, r, 1, MPI_INT, c, &request));
  report("null receive type", MPI_Ialltoall(s, 1, MPI_INT, r, 1, MPI_DATATYPE_NULL, c, &request));
  report("uncommitted send type", MPI_Ialltoall(s, 1, uncommitted, r, 1, MPI_INT, c, &request));
  report("uncommitted receive type", MPI_Ialltoall(s, 1, MPI_INT, r, 1, uncommitted, c, &request));
  report("null communicator", MPI_Ialltoall(s, 1, MPI_INT, r, 1, MPI_INT, MPI_COMM_NULL, &request));
  const int* k = counts.data();
  const int* d = displacements.data();
#ifndef MPICH_VERSION  // crashes on these
  report("v: null send counts", MPI_Ialltoallv(s, nullptr, d, MPI_INT, r, k, d, MPI_INT, c, &request));
  report("v: null receive displacements", MPI_Ialltoallv(s, k, d, MPI_INT, r, k, nullptr, MPI_INT, c, &request));
#endif
  report("v: negative send count", MPI_Ialltoallv(s, negative.data(), d, MPI_INT, r, k, d, MPI_INT, c, &request));
  report("v: negative receive count", MPI_Ialltoallv(s, k, d, MPI_INT, r, negative.data(), d, MPI_INT, c, &request));
  report("v: null send type", MPI_Ialltoallv(s, k, d, MPI_DATATYPE_NULL, r, k, d, MPI_INT, c, &request));
  report("v: null receive type", MPI_Ialltoallv(s, k, d, MPI_INT, r, k, d, MPI_DATATYPE_NULL, c, &request));
  report("v: null communicator", MPI_Ialltoallv(s, k, d, MPI_INT, r, k, d, MPI_INT, MPI_COMM_NULL, &request));
  still_works(communicator);

  // The communicator's own handler is called, once for each error.
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(count_call, &handler);
  MPI_Comm_set_errhandler(communicator, handler);
  report("own handler", MPI_Ialltoall(s, -1, MPI_INT, r, 1, MPI_INT, c, &request));
  if (rank == 0) std::printf("own handler: called %d times\n", handler_calls);
  still_works(communicator);

  MPI_Errhandler_free(&handler);
  MPI_Type_free(&uncommitted);
  MPI_Comm_free(&communicator);
  MPI_Finalize();
  return 0;
}
