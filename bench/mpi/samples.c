#include "samples.h"

#include <stdio.h>
#include <stdlib.h>

#include "fail.h"
#include "numbers.h"
#include "probe.h"
#include "work.h"

// Order within a round: native, offloaded, native again, offloaded again (not printed). So each measurement follows the
// other side and does not find its own buffers in the caches.
enum { kNative, kOffloaded, kAgain, kPrinted, kOffloadedAgain = kPrinted, kProbes, kSides = kAgain };

typedef struct {
  Workload workloads[kSides];  // separate buffers
  MPI_Comm comms[kSides];
} Sampled;

typedef struct {
  int rounds;
  double* elapsed_us;  // by probe
} Rounds;

static const char* const kNames[kPrinted] = {"native", "offloaded", "again"};

static void open_sides(Sampled* sampled, const SampledCell* cell) {
  Workload* native = &sampled->workloads[kNative];
  Workload* offloaded = &sampled->workloads[kOffloaded];
  // Opened first, so that its buffers are placed as if there were no others.
  workload_open(offloaded, sampled->comms[kOffloaded], cell->collective, cell->memory, cell->bytes);
  workload_open_apart(native, offloaded, sampled->comms[kNative], cell->collective, cell->memory, cell->bytes);
  for (int side = 0; side < kSides; side++) {
    sampled->workloads[side].blocking = cell->blocking;
    if (cell->persistent) workload_make_persistent(&sampled->workloads[side], sampled->comms[side]);
  }
}

static void validate(const Sampled* sampled, unsigned salt) {
  for (int side = 0; side < kSides; side++) {
    workload_validate(&sampled->workloads[side], sampled->comms[side], kNames[side], salt + (unsigned)side);
  }
}

static Rounds rounds_of(const Sampled* sampled, ProbeKind kind, uint64_t work, double seconds, int most) {
  Probe probes[kProbes];
  for (int i = 0; i < kProbes; i++) {
    const int side = i % kSides;
    probes[i] =
        (Probe){.kind = kind, .workload = &sampled->workloads[side], .comm = sampled->comms[side], .work = work};
  }
  Rounds found = {.rounds = rounds_within(probes, kProbes, seconds, 5, most)};
  found.elapsed_us = allocate_or_fail((size_t)found.rounds * kProbes * sizeof(double));
  measure_rounds(probes, kProbes, found.rounds, found.elapsed_us);
  return found;
}

static uint64_t sized_work(const Rounds* pure) {
  double* native = allocate_or_fail((size_t)pure->rounds * sizeof(double));
  for (int i = 0; i < pure->rounds; i++) native[i] = pure->elapsed_us[i];
  double latency_us = median(native, pure->rounds);
  free(native);
  MPI_Bcast(&latency_us, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return work_lasting(latency_us);
}

static void print_rounds(const char* name, const Rounds* found) {
  printf(", \"%s\": {", name);
  for (int i = 0; i < kPrinted; i++) {
    printf("%s\"%s\": [", i ? ", " : "", kNames[i]);
    for (int round = 0; round < found->rounds; round++) {
      printf("%s%.2f", round ? "," : "", found->elapsed_us[i * found->rounds + round]);
    }
    printf("]");
  }
  printf("}");
}

void samples_run(const Options* options, const SampledCell* cell, MPI_Comm native, MPI_Comm offloaded) {
  Sampled sampled = {.comms = {native, offloaded}};
  Rounds total = {0};
  uint64_t work = 0;
  open_sides(&sampled, cell);
  validate(&sampled, 1);
  const double pure_share = cell->blocking ? 1 : 0.3;
  const Rounds pure = rounds_of(&sampled, kProbePure, 0, pure_share * options->seconds, options->iterations);
  if (!cell->blocking) {
    work = cell->work ? *cell->work : sized_work(&pure);
    total = rounds_of(&sampled, kProbeOverlap, work, (1 - pure_share) * options->seconds, options->iterations);
  }
  validate(&sampled, 11);
  if (sampled.workloads[kNative].rank == 0) {
    printf("{\"collective\": \"%s\", \"bytes\": %d, \"ranks\": %d, \"work_iterations\": %llu",
           workload_name(&sampled.workloads[kNative]), cell->bytes, sampled.workloads[kNative].ranks,
           (unsigned long long)work);
    print_rounds("pure", &pure);
    if (!cell->blocking) print_rounds("total", &total);
    printf("}\n");
    fflush(stdout);
  }
  free(pure.elapsed_us);
  free(total.elapsed_us);
  for (int side = 0; side < kSides; side++) workload_close(&sampled.workloads[side]);
}
