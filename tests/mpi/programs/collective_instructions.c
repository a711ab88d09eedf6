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
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  CALLGRIND_START_INSTRUMENTATION;
  COUNTED("barrier", MPI_Barrier(MPI_COMM_WORLD));
  COUNTED("bcast", MPI_Bcast(into, 8, MPI_CHAR, 0, MPI_COMM_WORLD));
  COUNTED("bcast from 1", MPI_Bcast(into, 8, MPI_CHAR, 1, MPI_COMM_WORLD));
  COUNTED("sum of a double", MPI_Allreduce(from, into, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
  COUNTED("sum of an int", MPI_Allreduce(from, into, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  COUNTED("reduced double", MPI_Reduce(from, into, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD));
  COUNTED("gather", MPI_Gather(from, 8, MPI_CHAR, into, 8, MPI_CHAR, 0, MPI_COMM_WORLD));
  COUNTED("scatter", MPI_Scatter(from, 8, MPI_CHAR, into, 8, MPI_CHAR, 0, MPI_COMM_WORLD));
  COUNTED("allgather", MPI_Allgather(from, 64, MPI_CHAR, into, 64, MPI_CHAR, MPI_COMM_WORLD));
  COUNTED("alltoall", MPI_Alltoall(from, 512, MPI_CHAR, into, 512, MPI_CHAR, MPI_COMM_WORLD));
  MPI_Finalize();
  return 0;
}
