// Every round's times of one configuration on two communicators, alternating, for statistics elsewhere.
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "options.h"
#include "workload.h"

typedef struct {
  Collective collective;
  bool blocking;  // only the pure latency: there is no overlap
  bool persistent;
  Memory memory;
  int bytes;
  const uint64_t* work;  // iterations; NULL: as long as native's pure latency
} SampledCell;

// Validates, measures and prints one line of JSON on rank 0. Native is measured twice in each round: the difference is
// noise. Collective over both communicators, which have the ranks of MPI_COMM_WORLD.
void samples_run(const Options* options, const SampledCell* cell, MPI_Comm native, MPI_Comm offloaded);
