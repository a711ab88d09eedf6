// Compares native and offloaded collectives, alternating in one run. Measures pure latency, the overlap figure as OSU
// computes it, and by equal work the total, the exposed time and the CPU time inside MPI; also the service processes'
// CPU time. Prints one line of JSON per configuration, or with --figures samples every round's times.
//
// An ordinary MPI program. Two duplicates of a communicator of all ranks have the info key "outrigger". "off" stays
// native; "on" is offloaded when the program runs under Outrigger, and native otherwise. For samples the second one has
// no key, as in a program that does not use Outrigger's API.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "barrier.h"
#include "neighbors.h"
#include "options.h"
#include "probe.h"
#include "samples.h"
#include "service_cpu.h"
#include "work.h"
#include "workload.h"

enum { kNative, kOffloaded, kSides };

static const char* const kSideNames[kSides] = {"native", "offloaded"};

typedef struct {
  double pure_us;
  double total_us;
  double exposed_us;
  double overlap_percent;
  double cpu_us;
  double largest_cpu_us;
} Figures;

static MPI_Comm sides[kSides];
static MPI_Comm grids[kSides];

static MPI_Comm comm_of(Collective collective, int side) {
  return is_of_neighbors(collective) ? grids[side] : sides[side];
}

static MPI_Comm duplicate_with(MPI_Comm all, const char* value) {
  MPI_Info info;
  MPI_Comm comm;
  MPI_Info_create(&info);
  MPI_Info_set(info, "outrigger", value);
  MPI_Comm_dup_with_info(all, info, &comm);
  MPI_Info_free(&info);
  return comm;
}

static void sides_open(MPI_Comm* both, MPI_Comm all, bool samples) {
  both[kNative] = duplicate_with(all, "off");
  if (samples) {
    MPI_Comm_dup(all, &both[kOffloaded]);
  } else {
    both[kOffloaded] = duplicate_with(all, "on");
  }
}

static Probe pure(const Workload* workloads, int side) {
  return (Probe){.kind = kProbePure, .workload = &workloads[side], .comm = comm_of(workloads[side].collective, side)};
}

static Probe overlap(const Workload* workloads, int side, uint64_t work) {
  return (Probe){.kind = kProbeOverlap,
                 .workload = &workloads[side],
                 .comm = comm_of(workloads[side].collective, side),
                 .work = work};
}

static Probe work_alone(uint64_t work) {
  return (Probe){.kind = kProbeWork, .comm = MPI_COMM_NULL, .work = work};
}

static void measure_pure(const Workload* workloads, const Options* options, Figures* figures) {
  const Probe probes[kSides] = {pure(workloads, kNative), pure(workloads, kOffloaded)};
  ProbeResult results[kSides];
  const int rounds = rounds_within(probes, kSides, 0.3 * options->seconds, 5, options->iterations);
  measure(probes, kSides, rounds, results);
  for (int side = 0; side < kSides; side++) figures[side].pure_us = results[side].elapsed_us;
  double pure[kSides] = {figures[kNative].pure_us, figures[kOffloaded].pure_us};
  MPI_Bcast(pure, kSides, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (int side = 0; side < kSides; side++) figures[side].pure_us = pure[side];
}

// As in OSU: 100 % if the total equals the computation, when computing as long as the pure latency.
static double overlap_percent(double pure_us, double work_us, double total_us) {
  const double percent = 100.0 * (1.0 - (total_us - work_us) / pure_us);
  return percent < 0 ? 0 : percent > 100 ? 100 : percent;
}

// `equal`: iterations of work for both sides. For OSU's figure each side works as long as its own pure latency; for
// native that is `equal` unless the work was given.
static int measure_overlap(const Workload* workloads, const Options* options, uint64_t equal, uint64_t own_native,
                           Figures* figures, double* work_us) {
  enum {
    kEqualNative,
    kEqualOffloaded,
    kEqualWork,
    kOwnNative,
    kOwnNativeWork,
    kOwnOffloaded,
    kOwnOffloadedWork,
    kCount
  };
  const uint64_t own[kSides] = {own_native, work_lasting(figures[kOffloaded].pure_us)};
  const Probe probes[kCount] = {
      [kEqualNative] = overlap(workloads, kNative, equal),
      [kEqualOffloaded] = overlap(workloads, kOffloaded, equal),
      [kEqualWork] = work_alone(equal),
      [kOwnNative] = overlap(workloads, kNative, own[kNative]),
      [kOwnNativeWork] = work_alone(own[kNative]),
      [kOwnOffloaded] = overlap(workloads, kOffloaded, own[kOffloaded]),
      [kOwnOffloadedWork] = work_alone(own[kOffloaded]),
  };
  ProbeResult results[kCount];
  const int rounds = rounds_within(probes, kCount, 0.7 * options->seconds, 5, options->iterations);
  measure(probes, kCount, rounds, results);
  *work_us = results[kEqualWork].elapsed_us;
  for (int side = 0; side < kSides; side++) {
    const ProbeResult* total = &results[side == kNative ? kEqualNative : kEqualOffloaded];
    const ProbeResult* own_total = &results[side == kNative ? kOwnNative : kOwnOffloaded];
    const ProbeResult* own_work = &results[side == kNative ? kOwnNativeWork : kOwnOffloadedWork];
    figures[side].total_us = total->elapsed_us;
    figures[side].exposed_us = total->elapsed_us - *work_us;
    figures[side].cpu_us = total->cpu_us;
    figures[side].largest_cpu_us = total->largest_cpu_us;
    figures[side].overlap_percent = overlap_percent(figures[side].pure_us, own_work->elapsed_us, own_total->elapsed_us);
  }
  return rounds;
}

// The service processes' cost of the offloaded side at equal work, in separate rounds without the native side.
static void measure_service(const Workload* workloads, uint64_t equal, int rounds, double work_us,
                            ServiceFigures* figures) {
  const Probe probe = overlap(workloads, kOffloaded, equal);
  ProbeResult ignored;
  service_begin();
  measure(&probe, 1, rounds, &ignored);
  service_end(rounds, work_us, probe.workload, figures);
}

static void print_service(const ServiceFigures* figures) {
  printf(
      ", \"service\": {\"processes\": %d, \"cpus\": %d, \"cpu_us\": %.2f, \"floor_us\": %.2f, \"wire_bytes\": %.0f, "
      "\"node_wire_bytes\": %.0f}",
      figures->processes, figures->cpus, figures->cpu_us, figures->floor_us, figures->wire_bytes,
      figures->node_wire_bytes);
}

static void print_figures(const char* name, const Figures* figures) {
  printf(
      ", \"%s\": {\"pure_us\": %.2f, \"total_us\": %.2f, \"exposed_us\": %.2f, \"overlap_percent\": %.1f, "
      "\"cpu_us\": %.3f, \"largest_cpu_us\": %.3f}",
      name, figures->pure_us, figures->total_us, figures->exposed_us, figures->overlap_percent, figures->cpu_us,
      figures->largest_cpu_us);
}

static void run_configuration(const Options* options, Collective collective, bool persistent, Memory memory, int bytes,
                              const uint64_t* given_work) {
  Workload workloads[kSides];  // separate buffers
  Figures figures[kSides];
  ServiceFigures service;
  double work_us = 0;
  // Opened first, so that its buffers are placed as if there were no others.
  workload_open(&workloads[kOffloaded], comm_of(collective, kOffloaded), collective, memory, bytes);
  workload_open_apart(&workloads[kNative], &workloads[kOffloaded], comm_of(collective, kNative), collective, memory,
                      bytes);
  for (int side = 0; side < kSides; side++) {
    if (persistent) workload_make_persistent(&workloads[side], comm_of(collective, side));
    workload_validate(&workloads[side], comm_of(collective, side), kSideNames[side], 1 + (unsigned)side);
  }
  measure_pure(workloads, options, figures);
  const uint64_t own_native = work_lasting(figures[kNative].pure_us);
  const uint64_t equal = given_work ? *given_work : own_native;
  const int rounds = measure_overlap(workloads, options, equal, own_native, figures, &work_us);
  measure_service(workloads, equal, rounds, work_us, &service);
  for (int side = 0; side < kSides; side++) {
    workload_validate(&workloads[side], comm_of(collective, side), kSideNames[side], 11 + (unsigned)side);
  }
  const int ranks = workloads[kNative].ranks;
  if (workloads[kNative].rank == 0) {
    printf(
        "{\"collective\": \"%s\", \"memory\": \"%s\", \"bytes\": %d, \"ranks\": %d, \"order\": \"%s\", \"rounds\": %d, "
        "\"work_iterations\": %llu, \"work_us\": %.2f",
        workload_name(&workloads[kNative]), memory_name(memory), bytes, ranks,
        options->strided ? "strided" : "contiguous", rounds, (unsigned long long)equal, work_us);
    for (int side = 0; side < kSides; side++) print_figures(kSideNames[side], &figures[side]);
    print_service(&service);
    printf("}\n");
    fflush(stdout);
  }
  for (int side = 0; side < kSides; side++) workload_close(&workloads[side]);
}

static void run_one(const Options* options, int c, int m, int s, const uint64_t* work_given) {
  const Collective collective = options->collectives[c];
  if (options->samples) {
    const SampledCell cell = {collective,           options->blocking[c], options->persistent[c],
                              options->memories[m], options->sizes[s],    work_given};
    samples_run(options, &cell, comm_of(collective, kNative), comm_of(collective, kOffloaded));
  } else {
    run_configuration(options, collective, options->persistent[c], options->memories[m], options->sizes[s], work_given);
  }
}

static void run_all(const Options* options) {
  const uint64_t* work_given = options->work_count ? options->work : NULL;
  for (int c = 0; c < options->collective_count; c++) {
    for (int m = 0; m < options->memory_count; m++) {
      for (int s = 0; s < options->size_count; s++) {
        run_one(options, c, m, s, work_given);
        if (work_given) work_given++;
      }
    }
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const Options options =
      options_parse(argc, argv, "orbench: native against offloaded collectives, one line of JSON per configuration.");
  MPI_Comm all = options_comm(&options);
  MPI_Comm grid = grid_open(all);
  sides_open(sides, all, options.samples);
  sides_open(grids, grid, options.samples);
  MPI_Comm_free(&grid);
  barrier_open(sides[kNative]);
  service_open("outriggerd");
  run_all(&options);
  service_close();
  barrier_close();
  for (int side = 0; side < kSides; side++) {
    MPI_Comm_free(&sides[side]);
    MPI_Comm_free(&grids[side]);
  }
  if (all != MPI_COMM_WORLD) MPI_Comm_free(&all);
  MPI_Finalize();
  return 0;
}
