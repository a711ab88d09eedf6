// One collective with its buffers.
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  kIalltoall,
  kIalltoallv,
  kIalltoallw,
  kIallgather,
  kIallgatherv,
  kIbcast,  // from rank 0
  kIallreduce,
  kIreduce,  // to rank 0
  kIreduceScatterBlock,
  kIgather,  // to rank 0
  kIgatherv,
  kIscatter,  // from rank 0
  kIscatterv,
  kIbarrier,  // without data
  kIreduceScatter,
  kIscan,
  kIexscan,
  kIneighborAlltoall,  // on a non-periodic two-dimensional grid
  kIneighborAlltoallv,
  kIneighborAlltoallw,
  kIneighborAllgather,
  kIneighborAllgatherv,
  kCollectives
} Collective;
typedef enum { kAllocMem, kMalloc } Memory;

const char* collective_name(Collective collective);
// E.g. alltoall for ialltoall.
const char* blocking_name(Collective collective);
// E.g. alltoall_init.
const char* persistent_name(Collective collective);
const char* memory_name(Memory memory);

typedef struct {
  Collective collective;
  Memory memory;
  bool blocking;        // blocking form: posting completes it; false unless set after opening
  MPI_Request started;  // persistent form: posting starts it; MPI_REQUEST_NULL unless made after opening
  int bytes;  // of a block: per pair of ranks, per rank (gathers), of the root, or of a result; on a grid, per neighbor
  int ranks;
  int rank;
  unsigned char* send;
  unsigned char* receive;
  int* counts;
  int* displacements;
  MPI_Aint* offsets;    // as displacements
  MPI_Datatype* types;  // all MPI_BYTE
} Workload;

// Allocates and touches the buffers. Neighborhood collectives need a communicator from grid_open() (neighbors.h).
void workload_open(Workload* workload, MPI_Comm comm, Collective collective, Memory memory, int bytes);
// Buffers from malloc share no huge page with those of `other`, so that changes to one side's memory do not help the
// other.
void workload_open_apart(Workload* workload, const Workload* other, MPI_Comm comm, Collective collective, Memory memory,
                         int bytes);
// From now on the persistent form is posted, only on `comm`. Collective over `comm`.
void workload_make_persistent(Workload* workload, MPI_Comm comm);
void workload_close(Workload* workload);

// Bytes that a node with this many ranks receives from other nodes in one operation, each byte once. `first`: rank 0 is
// one of them.
double workload_received_by_node(const Workload* workload, int ranks_of_node, bool first);

// The name of the posted form.
const char* workload_name(const Workload* workload);

void workload_post(const Workload* workload, MPI_Comm comm, MPI_Request* request);

// Writes to each cache line that is sent, as a program does between calls. The bytes stay the same.
void workload_touch(const Workload* workload);

// The blocking form.
void workload_run(const Workload* workload, MPI_Comm comm);

// Runs the collective once on `comm` with fresh data and ends the job if a byte is wrong. Collective over `comm`.
void workload_validate(const Workload* workload, MPI_Comm comm, const char* side, unsigned salt);

#ifdef __cplusplus
}
#endif
