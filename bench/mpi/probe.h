// Timing of single operations, several kinds in turn, so that what disturbs the machine disturbs all kinds alike.
#pragma once

#include <stdint.h>

#include "workload.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  kProbePure,       // post, wait
  kProbeOverlap,    // post, work, wait
  kProbeWork,       // work alone
  kProbePacedWork,  // the same, timed as kProbePure is
} ProbeKind;

typedef struct {
  ProbeKind kind;
  const Workload* workload;  // it, and comm: unused by kProbeWork and kProbePacedWork
  MPI_Comm comm;
  uint64_t work;  // iterations; unused by kProbePure
} Probe;

typedef struct {
  // Median over the rounds. On one machine: from the first rank's start to the last rank's end, which is what counts
  // when ranks share a core. Over several machines, and for kProbePure and kProbePacedWork over several nodes of one:
  // the largest of the ranks' own times, without how much later some leave the barrier. A collective has no end before
  // its last start.
  double elapsed_us;
  // Median over the rounds of a rank's CPU time inside MPI calls, post and wait: the mean of the ranks, as what a job
  // pays is the sum; and of the rank that has most in a round. 0 unless kProbeOverlap. What reading the clock costs is
  // measured once and taken off each of the two calls, never below 0.
  double cpu_us;
  double largest_cpu_us;
} ProbeResult;

// Runs `rounds` rounds of all probes in turn, after a barrier each. Collective over MPI_COMM_WORLD; the results are
// valid on rank 0 only.
void measure(const Probe* probes, int probe_count, int rounds, ProbeResult* results);

// The same, with each round's elapsed_us instead of their median: those of probes[i] begin at elapsed_us[i * rounds].
void measure_rounds(const Probe* probes, int probe_count, int rounds, double* elapsed_us);

// How many rounds fit into `seconds`, within [least, most]: runs a few to see. The same on every rank.
int rounds_within(const Probe* probes, int probe_count, double seconds, int least, int most);

double now_s(void);

#ifdef __cplusplus
}
#endif
