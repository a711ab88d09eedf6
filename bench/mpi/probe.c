#include "probe.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "barrier.h"
#include "fail.h"
#include "numbers.h"
#include "work.h"

typedef struct {
  double start_s;
  double end_s;
  double cpu_s;
} Sample;

static double clock_s(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double now_s(void) {
  return clock_s(CLOCK_MONOTONIC);
}

static double cpu_s(void) {
  return clock_s(CLOCK_THREAD_CPUTIME_ID);
}

// Difference of two adjacent reads of the CPU clock. On virtual machines a read can be a system call.
static double cpu_read_s(void) {
  enum { kPairs = 501 };
  static double cost_s = -1;
  if (cost_s >= 0) return cost_s;
  double pairs[kPairs];
  for (int i = 0; i < kPairs; i++) {
    const double before = cpu_s();
    pairs[i] = cpu_s() - before;
  }
  cost_s = median(pairs, kPairs);
  return cost_s;
}

// CPU time between two reads, without the cost of the reads.
static double cpu_between_s(double before, double after) {
  const double elapsed_s = after - before - cpu_read_s();
  return elapsed_s < 0 ? 0 : elapsed_s;
}

static Sample run_pure(const Probe* probe) {
  Sample sample = {.start_s = now_s()};
  MPI_Request request;
  workload_post(probe->workload, probe->comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  sample.end_s = now_s();
  return sample;
}

// Work with the same clock reads and no calls, so that the exposed time is that of the calls.
static Sample run_work(const Probe* probe) {
  const bool calls = probe->kind == kProbeOverlap;
  MPI_Request request = MPI_REQUEST_NULL;
  Sample sample = {.start_s = now_s()};
  const double before_post = cpu_s();
  if (calls) workload_post(probe->workload, probe->comm, &request);
  const double after_post = cpu_s();
  work(probe->work);
  const double before_wait = cpu_s();
  if (calls) MPI_Wait(&request, MPI_STATUS_IGNORE);
  const double after_wait = cpu_s();
  sample.end_s = now_s();
  if (calls) sample.cpu_s = cpu_between_s(before_post, after_post) + cpu_between_s(before_wait, after_wait);
  return sample;
}

static Sample run(const Probe* probe) {
  if (probe->kind == kProbePure && probe->workload->blocking) workload_touch(probe->workload);
  barrier();
  return probe->kind == kProbePure ? run_pure(probe) : run_work(probe);
}

// Rank 0 gets, for each round, the smallest (MPI_MIN), the largest (MPI_MAX) or the sum of all ranks' values.
static void over_ranks(double* values, int count, MPI_Op operation) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Reduce(rank == 0 ? MPI_IN_PLACE : values, values, count, MPI_DOUBLE, operation, 0, MPI_COMM_WORLD);
}

// True: from the first rank's start to the last rank's end. False: the largest of the ranks' own times.
static bool by_one_clock(ProbeKind kind) {
  return barrier_is_sharp() || (barrier_one_clock() && kind != kProbePure && kind != kProbePacedWork);
}

// On rank 0, in seconds.
static void elapsed_by_round(ProbeKind kind, const Sample* samples, int stride, int rounds, double* elapsed) {
  const bool one_clock = by_one_clock(kind);
  double* start = allocate_or_fail((size_t)rounds * sizeof(double));
  for (int i = 0; i < rounds; i++) {
    const Sample* sample = &samples[(size_t)i * (size_t)stride];
    start[i] = one_clock ? sample->start_s : 0;
    elapsed[i] = one_clock ? sample->end_s : sample->end_s - sample->start_s;
  }
  over_ranks(start, rounds, MPI_MIN);
  over_ranks(elapsed, rounds, MPI_MAX);
  for (int i = 0; i < rounds; i++) elapsed[i] -= start[i];
  free(start);
}

static ProbeResult summarize(ProbeKind kind, const Sample* samples, int stride, int rounds) {
  double* elapsed = allocate_or_fail((size_t)rounds * sizeof(double));
  double* cpu = allocate_or_fail((size_t)rounds * sizeof(double));
  double* largest_cpu = allocate_or_fail((size_t)rounds * sizeof(double));
  elapsed_by_round(kind, samples, stride, rounds, elapsed);
  for (int i = 0; i < rounds; i++) cpu[i] = samples[(size_t)i * (size_t)stride].cpu_s;
  memcpy(largest_cpu, cpu, (size_t)rounds * sizeof(double));
  over_ranks(cpu, rounds, MPI_SUM);
  over_ranks(largest_cpu, rounds, MPI_MAX);
  int ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const ProbeResult result = {.elapsed_us = 1e6 * median(elapsed, rounds),
                              .cpu_us = 1e6 * median(cpu, rounds) / ranks,
                              .largest_cpu_us = 1e6 * median(largest_cpu, rounds)};
  free(elapsed);
  free(cpu);
  free(largest_cpu);
  return result;
}

// Ordered by rounds, then by probes; the caller frees them.
static Sample* run_rounds(const Probe* probes, int probe_count, int rounds) {
  (void)cpu_read_s();  // calibrates before the first round
  Sample* samples = allocate_or_fail((size_t)rounds * (size_t)probe_count * sizeof(Sample));
  memset(samples, 0, (size_t)rounds * (size_t)probe_count * sizeof(Sample));
  Sample* next = samples;
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < probe_count; i++) *next++ = run(&probes[i]);
  }
  barrier();
  return samples;
}

void measure(const Probe* probes, int probe_count, int rounds, ProbeResult* results) {
  Sample* samples = run_rounds(probes, probe_count, rounds);
  for (int i = 0; i < probe_count; i++) results[i] = summarize(probes[i].kind, samples + i, probe_count, rounds);
  free(samples);
}

void measure_rounds(const Probe* probes, int probe_count, int rounds, double* elapsed_us) {
  Sample* samples = run_rounds(probes, probe_count, rounds);
  for (int i = 0; i < probe_count; i++) {
    double* of_probe = elapsed_us + (size_t)i * (size_t)rounds;
    elapsed_by_round(probes[i].kind, samples + i, probe_count, rounds, of_probe);
    for (int round = 0; round < rounds; round++) of_probe[round] *= 1e6;
  }
  free(samples);
}

int rounds_within(const Probe* probes, int probe_count, double seconds, int least, int most) {
  enum { kTrial = 4 };
  ProbeResult ignored[8];
  if (probe_count > 8) fail("at most 8 probes at a time");
  barrier();
  const double start = now_s();
  measure(probes, probe_count, kTrial, ignored);
  const double round_s = (now_s() - start) / kTrial;
  const double fit = seconds / round_s;
  int rounds = fit < least ? least : fit > most ? most : (int)fit;
  MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return rounds;
}
