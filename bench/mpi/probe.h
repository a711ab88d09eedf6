// Times of single operations, several kinds alternating, so that disturbances of the machine affect all kinds alike.
#pragma once

#include <stdint.h>

#include "workload.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  kProbePure,       // post, wait; before a form that blocks, what is sent is written to
  kProbeOverlap,    // post, work, wait
  kProbeWork,       // work alone
  kProbePacedWork,  // the same, timed as kProbePure
} ProbeKind;

typedef struct {
  ProbeKind kind;
  const Workload* workload;  // not used by kProbeWork and kProbePacedWork; nor is comm
  MPI_Comm comm;
  uint64_t work;  // iterations; not used by kProbePure
} Probe;

typedef struct {
  // Median over the rounds. On one machine: from the first rank's start to the last rank's end, which matters when
  // ranks share a core. Over several machines, and for kProbePure and kProbePacedWork over several nodes of one: the
  // largest of the ranks' own times, without the skew of the barrier. A collective cannot end before its last start.
  double elapsed_us;
  // CPU time inside MPI calls (post and wait), medians over the rounds. First the mean of the ranks, because a job pays
  // the sum, then the largest. 0 except for kProbeOverlap. The cost of reading the clock is measured once
  // and subtracted from each of the two calls, down to 0.
  double cpu_us;
  double largest_cpu_us;
} ProbeResult;

// Runs `rounds` rounds of all probes, alternating, each after a barrier. Collective over MPI_COMM_WORLD; the results
// are valid on rank 0 only.
void measure(const Probe* probes, int probe_count, int rounds, ProbeResult* results);

// The same, with each round's elapsed_us instead of their median: those of probes[i] begin at elapsed_us[i * rounds].
void measure_rounds(const Probe* probes, int probe_count, int rounds, double* elapsed_us);

// Number of rounds that fit into `seconds`, within [least, most]: runs a few to find out. The same on every rank.
int rounds_within(const Probe* probes, int probe_count, double seconds, int least, int most);

double now_s(void);

#ifdef __cplusplus
}
#endif
