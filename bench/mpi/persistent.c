#include "persistent.h"

#include <dlfcn.h>
#include <stdio.h>

#include "fail.h"
#include "reductions.h"

typedef int (*Regular)(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request*);
typedef int (*Alltoallv)(const void*, const int*, const int*, MPI_Datatype, void*, const int*, const int*, MPI_Datatype,
                         MPI_Comm, MPI_Info, MPI_Request*);
typedef int (*Alltoallw)(const void*, const int*, const int*, const MPI_Datatype*, void*, const int*, const int*,
                         const MPI_Datatype*, MPI_Comm, MPI_Info, MPI_Request*);
typedef int (*NeighborAlltoallw)(const void*, const int*, const MPI_Aint*, const MPI_Datatype*, void*, const int*,
                                 const MPI_Aint*, const MPI_Datatype*, MPI_Comm, MPI_Info, MPI_Request*);
typedef int (*Allgatherv)(const void*, int, MPI_Datatype, void*, const int*, const int*, MPI_Datatype, MPI_Comm,
                          MPI_Info, MPI_Request*);
typedef int (*Rooted)(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm, MPI_Info, MPI_Request*);
typedef int (*Gatherv)(const void*, int, MPI_Datatype, void*, const int*, const int*, MPI_Datatype, int, MPI_Comm,
                       MPI_Info, MPI_Request*);
typedef int (*Scatterv)(const void*, const int*, const int*, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm,
                        MPI_Info, MPI_Request*);
typedef int (*Barrier)(MPI_Comm, MPI_Info, MPI_Request*);
typedef int (*Bcast)(void*, int, MPI_Datatype, int, MPI_Comm, MPI_Info, MPI_Request*);
typedef int (*Reduces)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request*);
typedef int (*ReduceScatter)(const void*, void*, const int*, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request*);
typedef int (*Reduce)(const void*, void*, int, MPI_Datatype, MPI_Op, int, MPI_Comm, MPI_Info, MPI_Request*);

// Converts a data pointer to a function pointer, which ISO C does not allow directly.
typedef union {
  void* address;
  Regular regular;
  Alltoallv alltoallv;
  Alltoallw alltoallw;
  Allgatherv allgatherv;
  Bcast bcast;
  Reduces reduces;
  ReduceScatter reduce_scatter;
  Reduce reduce;
  Rooted rooted;
  Gatherv gatherv;
  Scatterv scatterv;
  Barrier barrier;
  NeighborAlltoallw neighbor_alltoallw;
} Function;

static Function function_of(Collective collective) {
  static const char* const kNames[kCollectives] = {"Alltoall",
                                                   "Alltoallv",
                                                   "Alltoallw",
                                                   "Allgather",
                                                   "Allgatherv",
                                                   "Bcast",
                                                   "Allreduce",
                                                   "Reduce",
                                                   "Reduce_scatter_block",
                                                   "Gather",
                                                   "Gatherv",
                                                   "Scatter",
                                                   "Scatterv",
                                                   "Barrier",
                                                   "Reduce_scatter",
                                                   "Scan",
                                                   "Exscan",
                                                   "Neighbor_alltoall",
                                                   "Neighbor_alltoallv",
                                                   "Neighbor_alltoallw",
                                                   "Neighbor_allgather",
                                                   "Neighbor_allgatherv"};
  static const char* const kPrefixes[] = {"MPIX_", "MPI_"};
  for (int i = 0; i < 2; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s%s_init", kPrefixes[i], kNames[collective]);
    const Function found = {.address = dlsym(RTLD_DEFAULT, name)};
    if (found.address) return found;
  }
  fail("this MPI has no MPI_%s_init", kNames[collective]);
}

void persistent_init(const Workload* w, MPI_Comm comm, MPI_Request* request) {
  const Function call = function_of(w->collective);
  const MPI_Datatype type = MPI_BYTE;
  switch (w->collective) {
    case kIalltoall:
    case kIallgather:
    case kIneighborAlltoall:
    case kIneighborAllgather:
      call.regular(w->send, w->bytes, type, w->receive, w->bytes, type, comm, MPI_INFO_NULL, request);
      break;
    case kIalltoallv:
    case kIneighborAlltoallv:
      call.alltoallv(w->send, w->counts, w->displacements, type, w->receive, w->counts, w->displacements, type, comm,
                     MPI_INFO_NULL, request);
      break;
    case kIalltoallw:
      call.alltoallw(w->send, w->counts, w->displacements, w->types, w->receive, w->counts, w->displacements, w->types,
                     comm, MPI_INFO_NULL, request);
      break;
    case kIneighborAlltoallw:
      call.neighbor_alltoallw(w->send, w->counts, w->offsets, w->types, w->receive, w->counts, w->offsets, w->types,
                              comm, MPI_INFO_NULL, request);
      break;
    case kIallgatherv:
    case kIneighborAllgatherv:
      call.allgatherv(w->send, w->bytes, type, w->receive, w->counts, w->displacements, type, comm, MPI_INFO_NULL,
                      request);
      break;
    case kIallreduce:
    case kIreduceScatterBlock:
    case kIscan:
    case kIexscan:
      call.reduces(w->send, w->receive, reduction_count(w), reduction_type(), MPI_SUM, comm, MPI_INFO_NULL, request);
      break;
    case kIreduceScatter:
      call.reduce_scatter(w->send, w->receive, w->counts, reduction_type(), MPI_SUM, comm, MPI_INFO_NULL, request);
      break;
    case kIreduce:
      call.reduce(w->send, w->receive, reduction_count(w), reduction_type(), MPI_SUM, 0, comm, MPI_INFO_NULL, request);
      break;
    case kIgather:
    case kIscatter:
      call.rooted(w->send, w->bytes, type, w->receive, w->bytes, type, 0, comm, MPI_INFO_NULL, request);
      break;
    case kIgatherv:
      call.gatherv(w->send, w->bytes, type, w->receive, w->counts, w->displacements, type, 0, comm, MPI_INFO_NULL,
                   request);
      break;
    case kIscatterv:
      call.scatterv(w->send, w->counts, w->displacements, type, w->receive, w->bytes, type, 0, comm, MPI_INFO_NULL,
                    request);
      break;
    case kIbarrier: call.barrier(comm, MPI_INFO_NULL, request); break;
    default: call.bcast(w->rank == 0 ? w->send : w->receive, w->bytes, type, 0, comm, MPI_INFO_NULL, request);
  }
}
