// An ordinary benchmark of all-to-alls and other collectives, like OSU's nonblocking ones. For each size it measures
// the latency of the collective alone, and the time to post it, compute and wait for it. It does not use Outrigger.
//
// To compare two MPIs, or one with and without Outrigger, by equal work, give the second run the first one's --work.
#include <mpi.h>
#include <stdio.h>

#include "barrier.h"
#include "fail.h"
#include "neighbors.h"
#include "options.h"
#include "probe.h"
#include "work.h"
#include "workload.h"

static MPI_Comm all;   // ranks
static MPI_Comm grid;  // of the same ranks
static MPI_Comm comm;  // the communicator of the current collective

static double pure_latency_us(const Workload* workload, const Options* options) {
  const Probe probe = {.kind = kProbePure, .workload = workload, .comm = comm};
  ProbeResult result;
  const int rounds = rounds_within(&probe, 1, 0.3 * options->seconds, 5, options->iterations);
  measure(&probe, 1, rounds, &result);
  MPI_Bcast(&result.elapsed_us, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return result.elapsed_us;
}

static void print_row(const Workload* workload, double pure_us, uint64_t iterations, const ProbeResult* total,
                      const ProbeResult* alone) {
  printf("%-15s %10d %12.1f %12.1f %12.1f %12.1f %14.2f %14llu\n", workload_name(workload), workload->bytes, pure_us,
         alone->elapsed_us, total->elapsed_us, total->elapsed_us - alone->elapsed_us, total->cpu_us,
         (unsigned long long)iterations);
  fflush(stdout);
}

static void run_configuration(const Options* options, Collective collective, bool persistent, Memory memory, int bytes,
                              const uint64_t* given_work) {
  Workload workload;
  comm = is_of_neighbors(collective) ? grid : all;
  workload_open(&workload, comm, collective, memory, bytes);
  if (persistent) workload_make_persistent(&workload, comm);
  workload_validate(&workload, comm, "", 1);
  const double pure_us = pure_latency_us(&workload, options);
  const uint64_t iterations = given_work ? *given_work : work_lasting(pure_us);
  const Probe probes[2] = {{.kind = kProbeOverlap, .workload = &workload, .comm = comm, .work = iterations},
                           {.kind = kProbeWork, .work = iterations}};
  ProbeResult results[2];
  const int rounds = rounds_within(probes, 2, 0.7 * options->seconds, 5, options->iterations);
  measure(probes, 2, rounds, results);
  workload_validate(&workload, comm, "", 2);
  if (workload.rank == 0) print_row(&workload, pure_us, iterations, &results[0], &results[1]);
  workload_close(&workload);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const Options options =
      options_parse(argc, argv, "alltoall_bench: latency and overlap of nonblocking and persistent collectives.");
  if (options.samples) fail("--figures samples: orbench prints them");
  int rank;
  int ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  barrier_open(MPI_COMM_WORLD);
  all = options_comm(&options);
  grid = grid_open(all);
  if (rank == 0) {
    printf("# %d ranks; times in microseconds, medians\n", ranks);
    printf("# %-13s %10s %12s %12s %12s %12s %14s %14s\n", "collective", "bytes", "pure", "work", "total", "exposed",
           "cpu_in_mpi", "work_count");
  }
  const uint64_t* work_given = options.work_count ? options.work : NULL;
  for (int c = 0; c < options.collective_count; c++) {
    for (int m = 0; m < options.memory_count; m++) {
      for (int s = 0; s < options.size_count; s++) {
        run_configuration(&options, options.collectives[c], options.persistent[c], options.memories[m],
                          options.sizes[s], work_given);
        if (work_given) work_given++;
      }
    }
  }
  barrier_close();
  MPI_Comm_free(&grid);
  if (all != MPI_COMM_WORLD) MPI_Comm_free(&all);
  MPI_Finalize();
  return 0;
}
