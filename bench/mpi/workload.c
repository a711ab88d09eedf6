#include "workload.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "neighbors.h"
#include "persistent.h"
#include "reductions.h"
#include "rooted.h"

const char* collective_name(Collective collective) {
  static const char* const kNames[kCollectives] = {"ialltoall",
                                                   "ialltoallv",
                                                   "ialltoallw",
                                                   "iallgather",
                                                   "iallgatherv",
                                                   "ibcast",
                                                   "iallreduce",
                                                   "ireduce",
                                                   "ireduce_scatter_block",
                                                   "igather",
                                                   "igatherv",
                                                   "iscatter",
                                                   "iscatterv",
                                                   "ibarrier",
                                                   "ireduce_scatter",
                                                   "iscan",
                                                   "iexscan",
                                                   "ineighbor_alltoall",
                                                   "ineighbor_alltoallv",
                                                   "ineighbor_alltoallw",
                                                   "ineighbor_allgather",
                                                   "ineighbor_allgatherv"};
  return kNames[collective];
}

const char* blocking_name(Collective collective) {
  return collective_name(collective) + 1;
}

const char* persistent_name(Collective collective) {
  static const char* const kNames[kCollectives] = {"alltoall_init",
                                                   "alltoallv_init",
                                                   "alltoallw_init",
                                                   "allgather_init",
                                                   "allgatherv_init",
                                                   "bcast_init",
                                                   "allreduce_init",
                                                   "reduce_init",
                                                   "reduce_scatter_block_init",
                                                   "gather_init",
                                                   "gatherv_init",
                                                   "scatter_init",
                                                   "scatterv_init",
                                                   "barrier_init",
                                                   "reduce_scatter_init",
                                                   "scan_init",
                                                   "exscan_init",
                                                   "neighbor_alltoall_init",
                                                   "neighbor_alltoallv_init",
                                                   "neighbor_alltoallw_init",
                                                   "neighbor_allgather_init",
                                                   "neighbor_allgatherv_init"};
  return kNames[collective];
}

const char* memory_name(Memory memory) {
  return memory == kAllocMem ? "alloc_mem" : "malloc";
}

static bool gathers(const Workload* workload) {
  return workload->collective == kIallgather || workload->collective == kIallgatherv;
}

// Number of blocks that a rank sends.
static int blocks_sent(const Workload* workload) {
  if (is_rooted(workload->collective)) return rooted_blocks_sent(workload);
  if (is_of_neighbors(workload->collective)) return neighbor_blocks_sent(workload);
  const bool one = gathers(workload) || workload->collective == kIbarrier || workload->collective == kIbcast ||
                   (reduces(workload->collective) && !reduces_by_parts(workload->collective));
  return one ? 1 : workload->ranks;
}

static int blocks_received(const Workload* workload) {
  if (is_rooted(workload->collective)) return rooted_blocks_received(workload);
  if (is_of_neighbors(workload->collective)) return kNeighbors;
  return workload->collective == kIbcast || workload->collective == kIbarrier || reduces(workload->collective)
             ? 1
             : workload->ranks;
}

enum { kHugePageBytes = 2 << 20, kMostTries = 64 };

static size_t bytes_in(const Workload* workload, int blocks) {
  const size_t block =
      reduces(workload->collective) ? (size_t)reduction_count(workload) * reduction_width() : (size_t)workload->bytes;
  return (size_t)blocks * block;
}

static bool near(const unsigned char* memory, size_t bytes, const unsigned char* other, size_t other_bytes) {
  return memory < other + other_bytes + kHugePageBytes && other < memory + bytes + kHugePageBytes;
}

static bool near_to_workload(const unsigned char* memory, size_t bytes, const Workload* other) {
  return other && (near(memory, bytes, other->send, bytes_in(other, blocks_sent(other))) ||
                   near(memory, bytes, other->receive, bytes_in(other, blocks_received(other))));
}

// Used if malloc's memory is too near: such memory is never touched and freed at once.
static void* malloc_apart(size_t bytes, const Workload* other) {
  void* rejected[kMostTries];
  int tries = 0;
  void* memory = NULL;
  while (posix_memalign(&memory, 4096, bytes) == 0 && tries < kMostTries && near_to_workload(memory, bytes, other)) {
    rejected[tries++] = memory;
    memory = NULL;
  }
  while (tries > 0) free(rejected[--tries]);
  return memory;
}

static unsigned char* buffer_open(const Workload* workload, const Workload* other, int blocks) {
  void* memory = NULL;
  const size_t bytes = bytes_in(workload, blocks);
  if (workload->memory == kAllocMem) {
    MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory);
  } else {
    memory = malloc_apart(bytes, other);
  }
  if (!memory) fail("no memory for a buffer of %zu bytes", bytes);
  memset(memory, 1, bytes);
  return memory;
}

static void buffer_close(const Workload* workload, unsigned char* memory) {
  if (workload->memory == kAllocMem) {
    MPI_Free_mem(memory);
  } else {
    free(memory);
  }
}

void workload_open(Workload* workload, MPI_Comm comm, Collective collective, Memory memory, int bytes) {
  workload_open_apart(workload, NULL, comm, collective, memory, bytes);
}

void workload_open_apart(Workload* workload, const Workload* other, MPI_Comm comm, Collective collective, Memory memory,
                         int bytes) {
  workload->collective = collective;
  workload->memory = memory;
  workload->blocking = false;
  workload->started = MPI_REQUEST_NULL;
  workload->bytes = bytes;
  MPI_Comm_size(comm, &workload->ranks);
  MPI_Comm_rank(comm, &workload->rank);
  workload->send = buffer_open(workload, other, blocks_sent(workload));
  workload->receive = buffer_open(workload, other, blocks_received(workload));
  const int peers = workload->ranks > kNeighbors ? workload->ranks : kNeighbors;
  workload->counts = allocate_or_fail((size_t)peers * sizeof(int));
  workload->displacements = allocate_or_fail((size_t)peers * sizeof(int));
  workload->offsets = allocate_or_fail((size_t)peers * sizeof(MPI_Aint));
  workload->types = allocate_or_fail((size_t)peers * sizeof(MPI_Datatype));
  for (int peer = 0; peer < peers; peer++) {
    workload->counts[peer] = reduces(collective) ? reduction_count(workload) : bytes;
    workload->displacements[peer] = peer * bytes;
    workload->offsets[peer] = (MPI_Aint)peer * bytes;
    workload->types[peer] = MPI_BYTE;
  }
}

void workload_make_persistent(Workload* workload, MPI_Comm comm) {
  persistent_init(workload, comm, &workload->started);
}

void workload_close(Workload* workload) {
  if (workload->started != MPI_REQUEST_NULL) MPI_Request_free(&workload->started);
  buffer_close(workload, workload->send);
  buffer_close(workload, workload->receive);
  free(workload->counts);
  free(workload->displacements);
  free(workload->offsets);
  free(workload->types);
}

double workload_received_by_node(const Workload* w, int ranks_of_node, bool first) {
  const double others = (double)w->bytes * (w->ranks - ranks_of_node);
  if (gathers(w)) return others;
  // Upper bound: a strip of the grid has two sides.
  if (is_of_neighbors(w->collective)) return others > 0 ? 2.0 * w->bytes * ranks_of_node : 0;
  if (w->collective == kIbarrier) return 0;
  if (w->collective == kIbcast) return first ? 0 : w->bytes;
  if (gathers_at_root(w->collective)) return first ? others : 0;
  if (is_rooted(w->collective)) return first ? 0 : (double)w->bytes * ranks_of_node;
  if (w->collective == kIreduce) return first && others > 0 ? w->bytes : 0;
  if (w->collective == kIallreduce) return others > 0 ? w->bytes : 0;
  if (reduces_by_parts(w->collective)) return others > 0 ? (double)w->bytes * ranks_of_node : 0;
  if (is_prefix(w->collective)) return first ? 0 : w->bytes;
  return others * ranks_of_node;
}

const char* workload_name(const Workload* w) {
  if (w->started != MPI_REQUEST_NULL) return persistent_name(w->collective);
  return w->blocking ? blocking_name(w->collective) : collective_name(w->collective);
}

void workload_post(const Workload* w, MPI_Comm comm, MPI_Request* request) {
  *request = w->started;
  if (w->started != MPI_REQUEST_NULL) {
    MPI_Start(request);
    return;
  }
  if (w->blocking) {
    workload_run(w, comm);
    return;
  }
  if (reduces(w->collective)) {
    reduction_post(w, comm, request);
    return;
  }
  if (is_rooted(w->collective)) {
    rooted_post(w, comm, request);
    return;
  }
  if (is_of_neighbors(w->collective)) {
    neighbor_post(w, comm, request);
    return;
  }
  switch (w->collective) {
    case kIalltoall: MPI_Ialltoall(w->send, w->bytes, MPI_BYTE, w->receive, w->bytes, MPI_BYTE, comm, request); break;
    case kIalltoallv:
      MPI_Ialltoallv(w->send, w->counts, w->displacements, MPI_BYTE, w->receive, w->counts, w->displacements, MPI_BYTE,
                     comm, request);
      break;
    case kIalltoallw:
      MPI_Ialltoallw(w->send, w->counts, w->displacements, w->types, w->receive, w->counts, w->displacements, w->types,
                     comm, request);
      break;
    case kIallgather: MPI_Iallgather(w->send, w->bytes, MPI_BYTE, w->receive, w->bytes, MPI_BYTE, comm, request); break;
    case kIallgatherv:
      MPI_Iallgatherv(w->send, w->bytes, MPI_BYTE, w->receive, w->counts, w->displacements, MPI_BYTE, comm, request);
      break;
    case kIbarrier: MPI_Ibarrier(comm, request); break;
    default: MPI_Ibcast(w->rank == 0 ? w->send : w->receive, w->bytes, MPI_BYTE, 0, comm, request);
  }
}

void workload_touch(const Workload* w) {
  enum { kLineBytes = 64 };
  const size_t bytes = bytes_in(w, blocks_sent(w));
  volatile unsigned char* const memory = w->send;
  for (size_t i = 0; i < bytes; i += kLineBytes) memory[i] = memory[i];
}

void workload_run(const Workload* w, MPI_Comm comm) {
  if (reduces(w->collective)) {
    reduction_run(w, comm);
    return;
  }
  if (is_rooted(w->collective)) {
    rooted_run(w, comm);
    return;
  }
  if (is_of_neighbors(w->collective)) {
    neighbor_run(w, comm);
    return;
  }
  switch (w->collective) {
    case kIalltoall: MPI_Alltoall(w->send, w->bytes, MPI_BYTE, w->receive, w->bytes, MPI_BYTE, comm); break;
    case kIalltoallv:
      MPI_Alltoallv(w->send, w->counts, w->displacements, MPI_BYTE, w->receive, w->counts, w->displacements, MPI_BYTE,
                    comm);
      break;
    case kIalltoallw:
      MPI_Alltoallw(w->send, w->counts, w->displacements, w->types, w->receive, w->counts, w->displacements, w->types,
                    comm);
      break;
    case kIallgather: MPI_Allgather(w->send, w->bytes, MPI_BYTE, w->receive, w->bytes, MPI_BYTE, comm); break;
    case kIallgatherv:
      MPI_Allgatherv(w->send, w->bytes, MPI_BYTE, w->receive, w->counts, w->displacements, MPI_BYTE, comm);
      break;
    case kIbarrier: MPI_Barrier(comm); break;
    default: MPI_Bcast(w->rank == 0 ? w->send : w->receive, w->bytes, MPI_BYTE, 0, comm);
  }
}

// Differs for every pair, position and validation, so that a misplaced or stale block is noticed.
static unsigned char expected_byte(unsigned salt, int source, int destination, size_t index) {
  uint64_t word = ((uint64_t)salt << 40) ^ ((uint64_t)(unsigned)source << 20) ^ (uint64_t)(unsigned)destination;
  word = (word + index) * 0x9E3779B97F4A7C15ULL;
  return (unsigned char)(word >> 56);
}

// The receiver of the block, or the one number that stands for all receivers.
static int addressee(const Workload* w, int destination) {
  if (is_of_neighbors(w->collective) && neighbor_blocks_sent(w) == 1) return 0;
  return gathers(w) || gathers_at_root(w->collective) || w->collective == kIbcast ? 0 : destination;
}

static void post_and_wait(const Workload* w, MPI_Comm comm) {
  MPI_Request request;
  workload_post(w, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void workload_validate(const Workload* w, MPI_Comm comm, const char* side, unsigned salt) {
  if (reduces(w->collective)) {
    reduction_fill(w, salt);
    memset(w->receive, 0, bytes_in(w, blocks_received(w)));
    post_and_wait(w, comm);
    reduction_check(w, side, salt);
    return;
  }
  const size_t bytes = (size_t)w->bytes;
  const bool on_grid = is_of_neighbors(w->collective);
  for (int place = 0; place < blocks_sent(w); place++) {
    const int peer = on_grid ? neighbor_at(comm, place) : place;
    unsigned char* block = w->send + (size_t)place * bytes;
    for (size_t i = 0; i < bytes; i++) block[i] = expected_byte(salt, w->rank, addressee(w, peer), i);
  }
  memset(w->receive, 0, (size_t)blocks_received(w) * bytes);
  post_and_wait(w, comm);
  if (w->collective == kIbarrier) return;
  if (w->rank == 0 ? w->collective == kIbcast : gathers_at_root(w->collective)) return;
  for (int place = 0; place < blocks_received(w); place++) {
    const int peer = on_grid ? neighbor_at(comm, place) : place;
    const unsigned char* block = w->receive + (size_t)place * bytes;
    for (size_t i = 0; i < bytes; i++) {
      // Nothing arrives from outside the grid.
      if (block[i] != (peer == MPI_PROC_NULL ? 0 : expected_byte(salt, peer, addressee(w, w->rank), i))) {
        fail("%s %s of %d bytes: rank %d has a wrong byte at %zu of the block from rank %d", side,
             collective_name(w->collective), w->bytes, w->rank, i, peer);
      }
    }
  }
}
