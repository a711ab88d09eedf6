#include "reductions.h"

#include <stddef.h>
#include <stdint.h>

#include "fail.h"

bool reduces(Collective collective) {
  return collective == kIallreduce || collective == kIreduce || reduces_by_parts(collective) || is_prefix(collective);
}

bool reduces_by_parts(Collective collective) {
  return collective == kIreduceScatterBlock || collective == kIreduceScatter;
}

bool is_prefix(Collective collective) {
  return collective == kIscan || collective == kIexscan;
}

static bool sums_doubles;

void reduce_doubles(void) {
  sums_doubles = true;
}

MPI_Datatype reduction_type(void) {
  return sums_doubles ? MPI_DOUBLE : MPI_INT32_T;
}

size_t reduction_width(void) {
  return sums_doubles ? sizeof(double) : sizeof(int32_t);
}

int reduction_count(const Workload* w) {
  const int width = (int)reduction_width();
  return w->bytes / width + (w->bytes % width != 0);
}

void reduction_post(const Workload* w, MPI_Comm comm, MPI_Request* request) {
  const int count = reduction_count(w);
  MPI_Datatype type = reduction_type();
  switch (w->collective) {
    case kIallreduce: MPI_Iallreduce(w->send, w->receive, count, type, MPI_SUM, comm, request); break;
    case kIreduce: MPI_Ireduce(w->send, w->receive, count, type, MPI_SUM, 0, comm, request); break;
    case kIreduceScatter: MPI_Ireduce_scatter(w->send, w->receive, w->counts, type, MPI_SUM, comm, request); break;
    case kIscan: MPI_Iscan(w->send, w->receive, count, type, MPI_SUM, comm, request); break;
    case kIexscan: MPI_Iexscan(w->send, w->receive, count, type, MPI_SUM, comm, request); break;
    default: MPI_Ireduce_scatter_block(w->send, w->receive, count, type, MPI_SUM, comm, request);
  }
}

void reduction_run(const Workload* w, MPI_Comm comm) {
  const int count = reduction_count(w);
  MPI_Datatype type = reduction_type();
  switch (w->collective) {
    case kIallreduce: MPI_Allreduce(w->send, w->receive, count, type, MPI_SUM, comm); break;
    case kIreduce: MPI_Reduce(w->send, w->receive, count, type, MPI_SUM, 0, comm); break;
    case kIreduceScatter: MPI_Reduce_scatter(w->send, w->receive, w->counts, type, MPI_SUM, comm); break;
    case kIscan: MPI_Scan(w->send, w->receive, count, type, MPI_SUM, comm); break;
    case kIexscan: MPI_Exscan(w->send, w->receive, count, type, MPI_SUM, comm); break;
    default: MPI_Reduce_scatter_block(w->send, w->receive, count, type, MPI_SUM, comm);
  }
}

// Small integers: no sum overflows, and sums of doubles are exact.
static int32_t number_of(unsigned salt, int source, int destination, size_t index) {
  uint64_t word = ((uint64_t)salt << 40) ^ ((uint64_t)(unsigned)source << 20) ^ (uint64_t)(unsigned)destination;
  word = (word + index) * 0x9E3779B97F4A7C15ULL;
  return (int32_t)(word >> 58);
}

// Blocks of a vector: one per rank if it is scattered.
static int blocks_of(const Workload* w) {
  return reduces_by_parts(w->collective) ? w->ranks : 1;
}

// The ranks whose numbers are in this rank's result: the first `n`.
static int sources_of(const Workload* w) {
  if (w->collective == kIexscan) return w->rank;
  return w->collective == kIscan ? w->rank + 1 : w->ranks;
}

static void put(unsigned char* vector, size_t index, int32_t number) {
  if (sums_doubles) {
    ((double*)(void*)vector)[index] = number;
  } else {
    ((int32_t*)(void*)vector)[index] = number;
  }
}

static bool is_at(const unsigned char* vector, size_t index, int32_t number) {
  return sums_doubles ? ((const double*)(const void*)vector)[index] == number
                      : ((const int32_t*)(const void*)vector)[index] == number;
}

void reduction_fill(const Workload* w, unsigned salt) {
  const size_t count = (size_t)reduction_count(w);
  for (int block = 0; block < blocks_of(w); block++) {
    for (size_t i = 0; i < count; i++) put(w->send, (size_t)block * count + i, number_of(salt, w->rank, block, i));
  }
}

void reduction_check(const Workload* w, const char* side, unsigned salt) {
  if (w->collective == kIreduce && w->rank != 0) return;
  const size_t count = (size_t)reduction_count(w);
  const int block = reduces_by_parts(w->collective) ? w->rank : 0;
  for (size_t i = 0; i < count; i++) {
    int32_t sum = 0;
    for (int source = 0; source < sources_of(w); source++) sum += number_of(salt, source, block, i);
    if (!is_at(w->receive, i, sum)) {
      fail("%s %s of %d bytes: rank %d has a wrong number at %zu", side, collective_name(w->collective), w->bytes,
           w->rank, i);
    }
  }
}
