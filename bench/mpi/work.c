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

static double measured_us(ProbeKind kind, uint64_t iterations, int rounds) {
  const Probe probe = {.kind = kind, .work = iterations};
  ProbeResult result;
  measure(&probe, 1, rounds, &result);
  MPI_Bcast(&result.elapsed_us, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return result.elapsed_us;
}

// Long compared with the skew of the start: some 100 us if ranks start together, more over a network.
static double iterations_per_us(void) {
  static double rate = 0;
  if (rate > 0) return rate;
  const uint64_t iterations = barrier_is_sharp() ? 50000 : 10000000;
  rate = (double)iterations / measured_us(kProbeWork, iterations, barrier_is_sharp() ? 301 : 21);
  return rate;
}

static double between(double low, double value, double high) {
  return value < low ? low : value > high ? high : value;
}

uint64_t work_lasting(double us) {
  enum { kCorrections = 2 };
  const int rounds = (int)between(5, 1e5 / us, 101);
  double iterations = us * iterations_per_us();
  // The processor's speed may have changed.
  for (int i = 0; i < kCorrections; i++) {
    iterations *= between(0.8, us / measured_us(kProbePacedWork, (uint64_t)iterations, rounds), 1.25);
  }
  return (uint64_t)iterations;
}
