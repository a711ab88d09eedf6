// One all-to-all with its buffers.
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum { kIalltoall, kIalltoallv } Collective;
typedef enum { kAllocMem, kMalloc } Memory;

const char* collective_name(Collective collective);
const char* memory_name(Memory memory);

typedef struct {
  Collective collective;
  Memory memory;
  int bytes;  // per pair of ranks
  int ranks;
  int rank;
  unsigned char* send;
  unsigned char* receive;
  int* counts;
  int* displacements;
} Workload;

// Buffers are allocated and touched.
void workload_open(Workload* workload, Collective collective, Memory memory, int bytes);
void workload_close(Workload* workload);

void workload_post(const Workload* workload, MPI_Comm comm, MPI_Request* request);

// Runs the collective once on `comm` with fresh data and ends the job if a byte is wrong. Collective over `comm`.
void workload_validate(const Workload* workload, MPI_Comm comm, const char* side, unsigned salt);
