// MPI_Neighbor_allgather, MPI_Ineighbor_allgather and MPI_Neighbor_allgather_init.
#include "mpi/collectives/neighbor.hpp"

namespace outrigger::mpi {
namespace {

template <class Count>
bool offload_neighbor_allgather(Job& job, Form form, const void* send_buffer, Count send_count, MPI_Datatype send_type,
                                void* receive_buffer, Count receive_count, MPI_Datatype receive_type,
                                MPI_Comm communicator, MPI_Request* request) {
  return offload_of_neighbors(job, form, Collective::ineighbor_allgather,
                              OneBlock<Count>{send_buffer, send_count, send_type},
                              EqualBlocks<Count>{receive_buffer, receive_count, receive_type}, communicator, request);
}

}  // namespace

OUTRIGGER_ENTRY(Ineighbor_allgather, 8,
                CountedNonblocking<CollectiveCall::neighbor_allgather, &offload_neighbor_allgather<int>>)
OUTRIGGER_ENTRY(Neighbor_allgather, 7,
                CountedBlocking<CollectiveCall::neighbor_allgather, &offload_neighbor_allgather<int>>)
OUTRIGGER_PERSISTENT_ENTRY(Neighbor_allgather_init, 9,
                           CountedPersistent<CollectiveCall::neighbor_allgather, &offload_neighbor_allgather<int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(
    Ineighbor_allgather_c, 8,
    CountedNonblocking<CollectiveCall::neighbor_allgather, &offload_neighbor_allgather<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(
    Neighbor_allgather_c, 7,
    CountedBlocking<CollectiveCall::neighbor_allgather, &offload_neighbor_allgather<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(
    Neighbor_allgather_init_c, 9,
    CountedPersistent<CollectiveCall::neighbor_allgather, &offload_neighbor_allgather<MPI_Count>, Counts::large>)
#endif

}  // namespace outrigger::mpi
