// Prints the error class that invalid calls return under MPI_ERRORS_RETURN. The output must be the same native and
// offloaded, and an invalid call must leave everything usable.
//
//   errors

#include <mpi.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

int rank = 0;
int size = 0;

void report(const char* what, int code) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  // Only rank 0 prints: all ranks make the same errors.
  if (rank == 0) std::printf("%s: class %d\n", what, error_class);
}

// Known only at run time: programs for the standard ABI run on any MPI.
bool on_open_mpi() {
  std::string version(MPI_MAX_LIBRARY_VERSION_STRING, ' ');
  int length = 0;
  MPI_Get_library_version(version.data(), &length);
  return version.find("Open MPI") != std::string::npos;
}

int handler_calls = 0;
void count_call(MPI_Comm*, int*, ...) {
  ++handler_calls;
}

// Valid operations afterwards, on the same communicator.
void still_works(MPI_Comm communicator) {
  std::vector<int> send(static_cast<std::size_t>(size), rank);
  std::vector<int> receive(static_cast<std::size_t>(size), -1);
  MPI_Request request;
  MPI_Ialltoall(send.data(), 1, MPI_INT, receive.data(), 1, MPI_INT, communicator, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Bcast(receive.data(), size, MPI_INT, size - 1, communicator);
  for (int peer = 0; peer < size; ++peer) {
    if (receive[static_cast<std::size_t>(peer)] != peer) {
      std::printf("errors: rank %d: an operation after the errors gave wrong data\n", rank);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
}

// Arguments of invalid calls.
struct Arguments {
  MPI_Comm c;
  MPI_Datatype uncommitted;
  int* s;
  int* r;
  const int* k;         // counts of 1
  const int* negative;  // one of them is negative
  const int* d;
  const MPI_Datatype* types;
  const MPI_Datatype* null_types;
};

void allgather_errors(const Arguments& a) {
  MPI_Request request = MPI_REQUEST_NULL;
  const auto gather = [&](const char* what, int count, MPI_Datatype type, int room, MPI_Datatype into, MPI_Comm c) {
    report(what, MPI_Iallgather(a.s, count, type, a.r, room, into, c, &request));
    report(what, MPI_Allgather(a.s, count, type, a.r, room, into, c));
  };
  gather("allgather: negative send count", -1, MPI_INT, 1, MPI_INT, a.c);
  gather("allgather: negative receive count", 1, MPI_INT, -1, MPI_INT, a.c);
  gather("allgather: null send type", 1, MPI_DATATYPE_NULL, 1, MPI_INT, a.c);
  gather("allgather: null receive type", 1, MPI_INT, 1, MPI_DATATYPE_NULL, a.c);
  gather("allgather: uncommitted send type", 1, a.uncommitted, 1, MPI_INT, a.c);
  if (!on_open_mpi()) {  // accepts the one and crashes on the other
    gather("allgather: uncommitted receive type", 1, MPI_INT, 1, a.uncommitted, a.c);
    gather("allgather: null communicator", 1, MPI_INT, 1, MPI_INT, MPI_COMM_NULL);
  }
  const auto gather_v = [&](const char* what, int count, const int* rooms, const int* places, MPI_Datatype into) {
    report(what, MPI_Iallgatherv(a.s, count, MPI_INT, a.r, rooms, places, into, a.c, &request));
    report(what, MPI_Allgatherv(a.s, count, MPI_INT, a.r, rooms, places, into, a.c));
  };
  gather_v("allgatherv: negative send count", -1, a.k, a.d, MPI_INT);
  gather_v("allgatherv: null receive type", 1, a.k, a.d, MPI_DATATYPE_NULL);
  if (!on_open_mpi()) {  // crashes
    gather_v("allgatherv: negative receive count", 1, a.negative, a.d, MPI_INT);
  }
}

void alltoallw_errors(const Arguments& a) {
  MPI_Request request = MPI_REQUEST_NULL;
  const auto all = [&](const char* what, const int* counts, const int* rooms, const MPI_Datatype* types,
                       const MPI_Datatype* into) {
    report(what, MPI_Ialltoallw(a.s, counts, a.d, types, a.r, rooms, a.d, into, a.c, &request));
    report(what, MPI_Alltoallw(a.s, counts, a.d, types, a.r, rooms, a.d, into, a.c));
  };
  all("alltoallw: negative send count", a.negative, a.k, a.types, a.types);
  all("alltoallw: negative receive count", a.k, a.negative, a.types, a.types);
  all("alltoallw: null send type", a.k, a.k, a.null_types, a.types);
  all("alltoallw: null receive type", a.k, a.k, a.types, a.null_types);
}

void bcast_errors(const Arguments& a) {
  MPI_Request request = MPI_REQUEST_NULL;
  const auto bcast = [&](const char* what, int count, MPI_Datatype type, int root, MPI_Comm c) {
    report(what, MPI_Ibcast(a.r, count, type, root, c, &request));
    report(what, MPI_Bcast(a.r, count, type, root, c));
  };
  bcast("bcast: negative count", -1, MPI_INT, 0, a.c);
  bcast("bcast: null type", 1, MPI_DATATYPE_NULL, 0, a.c);
  bcast("bcast: uncommitted type", 1, a.uncommitted, 0, a.c);
  bcast("bcast: negative root", 1, MPI_INT, -1, a.c);
  bcast("bcast: root beyond the group", 1, MPI_INT, size, a.c);
  bcast("bcast: null communicator", 1, MPI_INT, 0, MPI_COMM_NULL);
}

void reduce_errors(const Arguments& a) {
  MPI_Request request = MPI_REQUEST_NULL;
  const auto all = [&](const char* what, const void* from, int count, MPI_Datatype type, MPI_Op op) {
    report(what, MPI_Iallreduce(from, a.r, count, type, op, a.c, &request));
    report(what, MPI_Allreduce(from, a.r, count, type, op, a.c));
  };
  if (on_open_mpi()) all("allreduce: negative count", a.s, -1, MPI_INT, MPI_SUM);  // others crash
  all("allreduce: null type", a.s, 1, MPI_DATATYPE_NULL, MPI_SUM);
  all("allreduce: null operation", a.s, 1, MPI_INT, MPI_OP_NULL);
  all("allreduce: operation of other types", a.s, 1, MPI_FLOAT, MPI_BAND);
  all("allreduce: one buffer", a.r, 2, MPI_INT, MPI_SUM);
  const auto to_root = [&](const char* what, int count, MPI_Datatype type, int root) {
    report(what, MPI_Ireduce(a.s, a.r, count, type, MPI_SUM, root, a.c, &request));
    report(what, MPI_Reduce(a.s, a.r, count, type, MPI_SUM, root, a.c));
  };
  if (on_open_mpi()) to_root("reduce: negative count", -1, MPI_INT, 0);
  to_root("reduce: null type", 1, MPI_DATATYPE_NULL, 0);
  to_root("reduce: negative root", 1, MPI_INT, -1);
  to_root("reduce: root beyond the group", 1, MPI_INT, size);
  const auto scatter = [&](const char* what, int count, MPI_Datatype type, MPI_Op op) {
    report(what, MPI_Ireduce_scatter_block(a.s, a.r, count, type, op, a.c, &request));
    report(what, MPI_Reduce_scatter_block(a.s, a.r, count, type, op, a.c));
  };
  if (on_open_mpi()) scatter("reduce_scatter_block: negative count", -1, MPI_INT, MPI_SUM);
  scatter("reduce_scatter_block: null type", 1, MPI_DATATYPE_NULL, MPI_SUM);
  scatter("reduce_scatter_block: operation of other types", 1, MPI_FLOAT, MPI_BAND);
  const auto parts = [&](const char* what, const int* counts, MPI_Datatype type, MPI_Op op) {
    report(what, MPI_Ireduce_scatter(a.s, a.r, counts, type, op, a.c, &request));
    report(what, MPI_Reduce_scatter(a.s, a.r, counts, type, op, a.c));
  };
  if (on_open_mpi()) parts("reduce_scatter: negative count", a.negative, MPI_INT, MPI_SUM);
  parts("reduce_scatter: null type", a.k, MPI_DATATYPE_NULL, MPI_SUM);
  parts("reduce_scatter: operation of other types", a.k, MPI_FLOAT, MPI_BAND);
}

void prefix_errors(const Arguments& a) {
  MPI_Request request = MPI_REQUEST_NULL;
  const auto both = [&](const char* what, int count, MPI_Datatype type, MPI_Op op) {
    report(what, MPI_Iscan(a.s, a.r, count, type, op, a.c, &request));
    report(what, MPI_Scan(a.s, a.r, count, type, op, a.c));
    report(what, MPI_Iexscan(a.s, a.r, count, type, op, a.c, &request));
    report(what, MPI_Exscan(a.s, a.r, count, type, op, a.c));
  };
  if (on_open_mpi()) both("prefix: negative count", -1, MPI_INT, MPI_SUM);
  both("prefix: null type", 1, MPI_DATATYPE_NULL, MPI_SUM);
  both("prefix: null operation", 1, MPI_INT, MPI_OP_NULL);
  both("prefix: operation of other types", 1, MPI_FLOAT, MPI_BAND);
}

void rooted_errors(const Arguments& a) {
  MPI_Request request = MPI_REQUEST_NULL;
  const auto gather = [&](const char* what, int count, MPI_Datatype type, int root) {
    report(what, MPI_Igather(a.s, count, type, a.r, 1, MPI_INT, root, a.c, &request));
    report(what, MPI_Gather(a.s, count, type, a.r, 1, MPI_INT, root, a.c));
    report(what, MPI_Igatherv(a.s, count, type, a.r, a.k, a.d, MPI_INT, root, a.c, &request));
    report(what, MPI_Gatherv(a.s, count, type, a.r, a.k, a.d, MPI_INT, root, a.c));
  };
  const auto scatter = [&](const char* what, int count, MPI_Datatype type, int root) {
    report(what, MPI_Iscatter(a.s, 1, MPI_INT, a.r, count, type, root, a.c, &request));
    report(what, MPI_Scatter(a.s, 1, MPI_INT, a.r, count, type, root, a.c));
    report(what, MPI_Iscatterv(a.s, a.k, a.d, MPI_INT, a.r, count, type, root, a.c, &request));
    report(what, MPI_Scatterv(a.s, a.k, a.d, MPI_INT, a.r, count, type, root, a.c));
  };
  gather("gather: negative count", -1, MPI_INT, 0);
  gather("gather: null type", 1, MPI_DATATYPE_NULL, 0);
  gather("gather: negative root", 1, MPI_INT, -1);
  gather("gather: root beyond the group", 1, MPI_INT, size);
  scatter("scatter: negative count", -1, MPI_INT, 0);
  scatter("scatter: null type", 1, MPI_DATATYPE_NULL, 0);
  scatter("scatter: negative root", 1, MPI_INT, -1);
  scatter("scatter: root beyond the group", 1, MPI_INT, size);
}

// On a ring, and where there is no topology.
void neighbor_errors(const Arguments& a) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm ring = MPI_COMM_NULL;
  const int periodic = 1;
  MPI_Cart_create(a.c, 1, &size, &periodic, 0, &ring);
  MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
  const std::vector<int> negative{1, -1};
  const std::vector<int> ones{1, 1};
  const std::vector<int> places{0, 0};
  const int* n = negative.data();
  const int* k = ones.data();
  const int* d = places.data();
  report("neighbors: no topology", MPI_Ineighbor_alltoall(a.s, 1, MPI_INT, a.r, 1, MPI_INT, a.c, &request));
  report("neighbors: no topology", MPI_Neighbor_allgather(a.s, 1, MPI_INT, a.r, 1, MPI_INT, a.c));
  report("neighbors: negative count", MPI_Ineighbor_alltoall(a.s, -1, MPI_INT, a.r, 1, MPI_INT, ring, &request));
  report("neighbors: negative count", MPI_Ineighbor_allgather(a.s, -1, MPI_INT, a.r, 1, MPI_INT, ring, &request));
  report("neighbors: null type", MPI_Ineighbor_alltoall(a.s, 1, MPI_DATATYPE_NULL, a.r, 1, MPI_INT, ring, &request));
  report("neighbors: null type", MPI_Neighbor_allgather(a.s, 1, MPI_INT, a.r, 1, MPI_DATATYPE_NULL, ring));
  report("neighbors, v: negative count",
         MPI_Ineighbor_alltoallv(a.s, n, d, MPI_INT, a.r, k, d, MPI_INT, ring, &request));
  report("neighbors, v: uncommitted type",
         MPI_Ineighbor_alltoallv(a.s, k, d, a.uncommitted, a.r, k, d, MPI_INT, ring, &request));
  report("neighbors: null communicator",
         MPI_Ineighbor_alltoall(a.s, 1, MPI_INT, a.r, 1, MPI_INT, MPI_COMM_NULL, &request));
  MPI_Comm_free(&ring);
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
  if (on_open_mpi()) {  // others crash
    report("v: null send counts", MPI_Ialltoallv(s, nullptr, d, MPI_INT, r, k, d, MPI_INT, c, &request));
    report("v: null receive displacements", MPI_Ialltoallv(s, k, d, MPI_INT, r, k, nullptr, MPI_INT, c, &request));
  }
  report("v: negative send count", MPI_Ialltoallv(s, negative.data(), d, MPI_INT, r, k, d, MPI_INT, c, &request));
  report("v: negative receive count", MPI_Ialltoallv(s, k, d, MPI_INT, r, negative.data(), d, MPI_INT, c, &request));
  report("v: null send type", MPI_Ialltoallv(s, k, d, MPI_DATATYPE_NULL, r, k, d, MPI_INT, c, &request));
  report("v: null receive type", MPI_Ialltoallv(s, k, d, MPI_INT, r, k, d, MPI_DATATYPE_NULL, c, &request));
  report("v: null communicator", MPI_Ialltoallv(s, k, d, MPI_INT, r, k, d, MPI_INT, MPI_COMM_NULL, &request));
  const std::vector<MPI_Datatype> types(n, MPI_INT), null_types(n, MPI_DATATYPE_NULL);
  const Arguments arguments{c, uncommitted, s, r, k, negative.data(), d, types.data(), null_types.data()};
  allgather_errors(arguments);
  alltoallw_errors(arguments);
  bcast_errors(arguments);
  reduce_errors(arguments);
  prefix_errors(arguments);
  rooted_errors(arguments);
  neighbor_errors(arguments);
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
