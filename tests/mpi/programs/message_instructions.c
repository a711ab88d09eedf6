/* Counts the instructions of rank 0 in calls with messages that have nothing to do: under valgrind --tool=callgrind,
 * which writes a profile for each call, by its name. Without valgrind's header it says so.
 */
#include <mpi.h>
#include <stdio.h>

#if __has_include(<valgrind/callgrind.h>)
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#include <valgrind/callgrind.h>
#define BEGIN() CALLGRIND_ZERO_STATS
#define END(name) CALLGRIND_DUMP_STATS_AT(name)
#else
#define CALLGRIND_START_INSTRUMENTATION printf("without valgrind's header\n")
#define BEGIN()
#define END(name)
#endif

enum { CALLS = 6 }; /* the first ones find the functions and fill the caches */

int main(int argc, char** argv) {
  int value = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Init(&argc, &argv);
  CALLGRIND_START_INSTRUMENTATION;
  for (int i = 0; i < CALLS; ++i) {
    BEGIN();
    MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    END("send");
    BEGIN();
    MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    END("recv");
    BEGIN();
    MPI_Probe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    END("probe");
    BEGIN();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    END("wait");
  }
  MPI_Finalize();
  return 0;
}
