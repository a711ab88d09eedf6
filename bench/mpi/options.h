// The command line that the benchmark programs share.
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "workload.h"

enum { kMaxSizes = 32, kForms = 3 * kCollectives, kMaxWork = kForms * kMaxSizes };

typedef struct {
  Collective collectives[kForms];
  bool blocking[kForms];    // of each of the collectives
  bool persistent[kForms];  // ... or this
  int collective_count;
  Memory memories[2];
  int memory_count;
  int sizes[kMaxSizes];
  int size_count;
  int iterations;           // at most
  double seconds;           // at most, per configuration
  uint64_t work[kMaxWork];  // iterations of work per configuration in the order of running; none: from the latency
  int work_count;
  bool samples;  // orbench: every round of both sides, the second as a program gets it that says nothing
  bool strided;  // ranks by turns over the nodes, whatever the launcher gave them
} Options;

// Ends the program with a message when an argument is wrong, and with a description for --help.
Options options_parse(int argc, char** argv, const char* about);

// All ranks, in the order asked for: MPI_COMM_WORLD, or a communicator that the caller frees. Rank 0 is the same.
// Collective over MPI_COMM_WORLD.
MPI_Comm options_comm(const Options* options);
