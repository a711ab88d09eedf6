// MPI_Neighbor_alltoallw, MPI_Ineighbor_alltoallw and MPI_Neighbor_alltoallw_init: a type and a displacement in bytes
// for every neighbor, as of a halo.
#include "mpi/collectives/neighbor.hpp"

namespace outrigger::mpi {
namespace {

template <class Count>
bool offload_neighbor_alltoallw(Job& job, Form form, const void* send_buffer, const Count* send_counts,
                                const MPI_Aint* send_displacements, const MPI_Datatype* send_types,
                                void* receive_buffer, const Count* receive_counts,
                                const MPI_Aint* receive_displacements, const MPI_Datatype* receive_types,
                                MPI_Comm communicator, MPI_Request* request) {
  return offload_of_neighbors(job, form, Collective::ineighbor_alltoallw,
                              TypedBlocks<Count>{send_buffer, send_counts, send_displacements, send_types},
                              TypedBlocks<Count>{receive_buffer, receive_counts, receive_displacements, receive_types},
                              communicator, request);
}

}  // namespace

OUTRIGGER_ENTRY(Ineighbor_alltoallw, 10,
                CountedNonblocking<CollectiveCall::neighbor_alltoallw, &offload_neighbor_alltoallw<int>>)
OUTRIGGER_ENTRY(Neighbor_alltoallw, 9,
                CountedBlocking<CollectiveCall::neighbor_alltoallw, &offload_neighbor_alltoallw<int>>)
OUTRIGGER_PERSISTENT_ENTRY(Neighbor_alltoallw_init, 11,
                           CountedPersistent<CollectiveCall::neighbor_alltoallw, &offload_neighbor_alltoallw<int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(
    Ineighbor_alltoallw_c, 10,
    CountedNonblocking<CollectiveCall::neighbor_alltoallw, &offload_neighbor_alltoallw<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(
    Neighbor_alltoallw_c, 9,
    CountedBlocking<CollectiveCall::neighbor_alltoallw, &offload_neighbor_alltoallw<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(
    Neighbor_alltoallw_init_c, 11,
    CountedPersistent<CollectiveCall::neighbor_alltoallw, &offload_neighbor_alltoallw<MPI_Count>, Counts::large>)
#endif

}  // namespace outrigger::mpi
