#include "workload.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

const char* collective_name(Collective collective) {
  return collective == kIalltoall ? "ialltoall" : "ialltoallv";
}

const char* memory_name(Memory memory) {
  return memory == kAllocMem ? "alloc_mem" : "malloc";
}

static size_t buffer_bytes(const Workload* workload) {
  return (size_t)workload->ranks * (size_t)workload->bytes;
}

static unsigned char* buffer_open(const Workload* workload) {
  void* memory = NULL;
  const size_t bytes = buffer_bytes(workload);
  if (workload->memory == kAllocMem) {
    MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory);
  } else if (posix_memalign(&memory, 4096, bytes) != 0) {
    memory = NULL;
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

void workload_open(Workload* workload, Collective collective, Memory memory, int bytes) {
  workload->collective = collective;
  workload->memory = memory;
  workload->bytes = bytes;
  MPI_Comm_size(MPI_COMM_WORLD, &workload->ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &workload->rank);
  workload->send = buffer_open(workload);
  workload->receive = buffer_open(workload);
  workload->counts = allocate_or_fail((size_t)workload->ranks * sizeof(int));
  workload->displacements = allocate_or_fail((size_t)workload->ranks * sizeof(int));
  for (int peer = 0; peer < workload->ranks; peer++) {
    workload->counts[peer] = bytes;
    workload->displacements[peer] = peer * bytes;
  }
}

void workload_close(Workload* workload) {
  buffer_close(workload, workload->send);
  buffer_close(workload, workload->receive);
  free(workload->counts);
  free(workload->displacements);
}

void workload_post(const Workload* w, MPI_Comm comm, MPI_Request* request) {
  if (w->collective == kIalltoall) {
    MPI_Ialltoall(w->send, w->bytes, MPI_BYTE, w->receive, w->bytes, MPI_BYTE, comm, request);
  } else {
    MPI_Ialltoallv(w->send, w->counts, w->displacements, MPI_BYTE, w->receive, w->counts, w->displacements, MPI_BYTE,
                   comm, request);
  }
}

// Differs for every pair, position and validation, so that a block in the wrong place or of an earlier call is seen.
static unsigned char expected_byte(unsigned salt, int source, int destination, size_t index) {
  uint64_t word = ((uint64_t)salt << 40) ^ ((uint64_t)(unsigned)source << 20) ^ (uint64_t)(unsigned)destination;
  word = (word + index) * 0x9E3779B97F4A7C15ULL;
  return (unsigned char)(word >> 56);
}

void workload_validate(const Workload* w, MPI_Comm comm, const char* side, unsigned salt) {
  const size_t bytes = (size_t)w->bytes;
  for (int peer = 0; peer < w->ranks; peer++) {
    unsigned char* block = w->send + (size_t)peer * bytes;
    for (size_t i = 0; i < bytes; i++) block[i] = expected_byte(salt, w->rank, peer, i);
  }
  memset(w->receive, 0, buffer_bytes(w));
  MPI_Request request;
  workload_post(w, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int peer = 0; peer < w->ranks; peer++) {
    const unsigned char* block = w->receive + (size_t)peer * bytes;
    for (size_t i = 0; i < bytes; i++) {
      if (block[i] != expected_byte(salt, peer, w->rank, i)) {
        fail("%s %s of %d bytes: rank %d has a wrong byte at %zu of the block from rank %d", side,
             collective_name(w->collective), w->bytes, w->rank, i, peer);
      }
    }
  }
}
