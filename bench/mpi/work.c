#include "work.h"

#include <mpi.h>

#include "barrier.h"
#include "probe.h"

static volatile uint64_t sink;

__attribute__((noinline)) void work(uint64_t iterations) {
  uint64_t state = sink + 1;
  for (uint64_t i = 0; i < iterations; i++) state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  sink = state;
}

double work_iterations_per_us(void) {
  // Some 100 us: rarely interrupted by the rest of the machine. Over a network ranks do not start together, and the
  // work has to be long against that.
  const int rounds = barrier_is_sharp() ? 301 : 21;
  const Probe probe = {.kind = kProbeWork, .work = barrier_is_sharp() ? 50000 : 10000000};
  ProbeResult result;
  measure(NULL, &probe, 1, rounds, &result);
  double rate = (double)probe.work / result.elapsed_us;
  MPI_Bcast(&rate, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return rate;
}
