// The common command line of the benchmark programs.
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "workload.h"

enum { kMaxSizes = 32, kForms = 3 * kCollectives, kMaxWork = kForms * kMaxSizes };

typedef struct {
  Collective collectives[kForms];
  bool blocking[kForms];    // per collective
  bool persistent[kForms];  // ... or persistent
  int collective_count;
  Memory memories[2];
  int memory_count;
  int sizes[kMaxSizes];
  int size_count;
  int iterations;           // upper limit
  double seconds;           // upper limit per configuration
  uint64_t work[kMaxWork];  // iterations of work per configuration in the order of running; none: from the latency
  int work_count;
  bool samples;  // orbench: print every round of both sides; the second side has no info key, as in an ordinary program
  bool strided;  // ranks round-robin over the nodes, instead of the launcher's order
} Options;

// Ends the program with a message if an argument is wrong, and with a description for --help.
Options options_parse(int argc, char** argv, const char* about);

// All ranks, in the requested order: MPI_COMM_WORLD, or a communicator that the caller frees. Rank 0 is the same.
// Collective over MPI_COMM_WORLD.
MPI_Comm options_comm(const Options* options);
