/* Counts the instructions of rank 0 in short blocking collectives: under valgrind --tool=callgrind, which writes a
 * profile for each call, by its name. Without valgrind's header it says so.
 */
#include <mpi.h>
#include <stdio.h>

#if __has_include(<valgrind/callgrind.h>)
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION printf("without valgrind's header\n")
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS_AT(name)
#endif

enum { CALLS = 6, MOST_BYTES = 4096 }; /* the first ones find the functions and fill the caches */

#define COUNTED(name, call)                         \
  do {                                              \
    for (int i = 0; i < CALLS; ++i) {               \
      if (rank == 0) CALLGRIND_ZERO_STATS;          \
      call;                                         \
      if (rank == 0) CALLGRIND_DUMP_STATS_AT(name); \
    }                                               \
  } while (0)

int main(int argc, char** argv) {
  static char from[MOST_BYTES];
  static char into[MOST_BYTES];
  const int counts[] = {8, 8, 8, 8};
  const int places[] = {0, 8, 16, 24};
  const int periodic = 0;
  int rank = 0;
  int ranks = 0;
  MPI_Comm line = MPI_COMM_NULL;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &line);
  CALLGRIND_START_INSTRUMENTATION;
  COUNTED("barrier", MPI_Barrier(MPI_COMM_WORLD));
  COUNTED("bcast", MPI_Bcast(into, 8, MPI_CHAR, 0, MPI_COMM_WORLD));
  COUNTED("bcast from 1", MPI_Bcast(into, 8, MPI_CHAR, 1, MPI_COMM_WORLD));
  COUNTED("sum of a double", MPI_Allreduce(from, into, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
  COUNTED("sum of an int", MPI_Allreduce(from, into, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  COUNTED("reduced double", MPI_Reduce(from, into, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD));
  COUNTED("scan of a double", MPI_Scan(from, into, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
  COUNTED("exscan of a double", MPI_Exscan(from, into, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
  COUNTED("scattered sum", MPI_Reduce_scatter_block(from, into, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
  COUNTED("gather", MPI_Gather(from, 8, MPI_CHAR, into, 8, MPI_CHAR, 0, MPI_COMM_WORLD));
  COUNTED("scatter", MPI_Scatter(from, 8, MPI_CHAR, into, 8, MPI_CHAR, 0, MPI_COMM_WORLD));
  COUNTED("allgather", MPI_Allgather(from, 64, MPI_CHAR, into, 64, MPI_CHAR, MPI_COMM_WORLD));
  COUNTED("alltoall", MPI_Alltoall(from, 512, MPI_CHAR, into, 512, MPI_CHAR, MPI_COMM_WORLD));
  COUNTED("gatherv", MPI_Gatherv(from, 8, MPI_CHAR, into, counts, places, MPI_CHAR, 0, MPI_COMM_WORLD));
  COUNTED("scatterv", MPI_Scatterv(from, counts, places, MPI_CHAR, into, 8, MPI_CHAR, 0, MPI_COMM_WORLD));
  COUNTED("allgatherv", MPI_Allgatherv(from, 8, MPI_CHAR, into, counts, places, MPI_CHAR, MPI_COMM_WORLD));
  COUNTED("alltoallv", MPI_Alltoallv(from, counts, places, MPI_CHAR, into, counts, places, MPI_CHAR, MPI_COMM_WORLD));
  COUNTED("neighbors", MPI_Neighbor_alltoall(from, 8, MPI_CHAR, into, 8, MPI_CHAR, line));
  MPI_Comm_free(&line);
  MPI_Finalize();
  return 0;
}
