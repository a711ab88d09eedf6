// MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv and MPI_Neighbor_allgatherv_init.
#include "mpi/collectives/neighbor.hpp"

namespace outrigger::mpi {
namespace {

template <class Count, class Displacement>
bool offload_neighbor_allgatherv(Job& job, Form form, const void* send_buffer, Count send_count, MPI_Datatype send_type,
                                 void* receive_buffer, const Count* receive_counts,
                                 const Displacement* receive_displacements, MPI_Datatype receive_type,
                                 MPI_Comm communicator, MPI_Request* request) {
  return offload_of_neighbors(
      job, form, Collective::ineighbor_allgatherv, OneBlock<Count>{send_buffer, send_count, send_type},
      CountedBlocks<Count, Displacement>{receive_buffer, receive_counts, receive_displacements, receive_type},
      communicator, request);
}

}  // namespace

OUTRIGGER_ENTRY(Ineighbor_allgatherv, 9,
                CountedNonblocking<CollectiveCall::neighbor_allgatherv, &offload_neighbor_allgatherv<int, int>>)
OUTRIGGER_ENTRY(Neighbor_allgatherv, 8,
                CountedBlocking<CollectiveCall::neighbor_allgatherv, &offload_neighbor_allgatherv<int, int>>)
OUTRIGGER_PERSISTENT_ENTRY(
    Neighbor_allgatherv_init, 10,
    CountedPersistent<CollectiveCall::neighbor_allgatherv, &offload_neighbor_allgatherv<int, int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Ineighbor_allgatherv_c, 9,
                CountedNonblocking<CollectiveCall::neighbor_allgatherv,
                                   &offload_neighbor_allgatherv<MPI_Count, MPI_Aint>, Counts::large>)
OUTRIGGER_ENTRY(Neighbor_allgatherv_c, 8,
                CountedBlocking<CollectiveCall::neighbor_allgatherv, &offload_neighbor_allgatherv<MPI_Count, MPI_Aint>,
                                Counts::large>)
OUTRIGGER_ENTRY(Neighbor_allgatherv_init_c, 10,
                CountedPersistent<CollectiveCall::neighbor_allgatherv,
                                  &offload_neighbor_allgatherv<MPI_Count, MPI_Aint>, Counts::large>)
#endif

}  // namespace outrigger::mpi
