// MPI_Neighbor_alltoallv, MPI_Ineighbor_alltoallv and MPI_Neighbor_alltoallv_init.
#include "mpi/collectives/neighbor.hpp"

namespace outrigger::mpi {
namespace {

template <class Count, class Displacement>
bool offload_neighbor_alltoallv(Job& job, Form form, const void* send_buffer, const Count* send_counts,
                                const Displacement* send_displacements, MPI_Datatype send_type, void* receive_buffer,
                                const Count* receive_counts, const Displacement* receive_displacements,
                                MPI_Datatype receive_type, MPI_Comm communicator, MPI_Request* request) {
  return offload_of_neighbors(
      job, form, Collective::ineighbor_alltoallv,
      CountedBlocks<Count, Displacement>{send_buffer, send_counts, send_displacements, send_type},
      CountedBlocks<Count, Displacement>{receive_buffer, receive_counts, receive_displacements, receive_type},
      communicator, request);
}

}  // namespace

OUTRIGGER_ENTRY(Ineighbor_alltoallv, 10,
                CountedNonblocking<CollectiveCall::neighbor_alltoallv, &offload_neighbor_alltoallv<int, int>>)
OUTRIGGER_ENTRY(Neighbor_alltoallv, 9,
                CountedBlocking<CollectiveCall::neighbor_alltoallv, &offload_neighbor_alltoallv<int, int>>)
OUTRIGGER_PERSISTENT_ENTRY(Neighbor_alltoallv_init, 11,
                           CountedPersistent<CollectiveCall::neighbor_alltoallv, &offload_neighbor_alltoallv<int, int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Ineighbor_alltoallv_c, 10,
                CountedNonblocking<CollectiveCall::neighbor_alltoallv, &offload_neighbor_alltoallv<MPI_Count, MPI_Aint>,
                                   Counts::large>)
OUTRIGGER_ENTRY(Neighbor_alltoallv_c, 9,
                CountedBlocking<CollectiveCall::neighbor_alltoallv, &offload_neighbor_alltoallv<MPI_Count, MPI_Aint>,
                                Counts::large>)
OUTRIGGER_ENTRY(Neighbor_alltoallv_init_c, 11,
                CountedPersistent<CollectiveCall::neighbor_alltoallv, &offload_neighbor_alltoallv<MPI_Count, MPI_Aint>,
                                  Counts::large>)
#endif

}  // namespace outrigger::mpi
