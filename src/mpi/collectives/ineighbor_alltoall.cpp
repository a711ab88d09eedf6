// MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall and MPI_Neighbor_alltoall_init.
#include "mpi/collectives/neighbor.hpp"

namespace outrigger::mpi {
namespace {

template <class Count>
bool offload_neighbor_alltoall(Job& job, Form form, const void* send_buffer, Count send_count, MPI_Datatype send_type,
                               void* receive_buffer, Count receive_count, MPI_Datatype receive_type,
                               MPI_Comm communicator, MPI_Request* request) {
  return offload_of_neighbors(job, form, Collective::ineighbor_alltoall,
                              EqualBlocks<Count>{send_buffer, send_count, send_type},
                              EqualBlocks<Count>{receive_buffer, receive_count, receive_type}, communicator, request);
}

}  // namespace

OUTRIGGER_ENTRY(Ineighbor_alltoall, 8,
                CountedNonblocking<CollectiveCall::neighbor_alltoall, &offload_neighbor_alltoall<int>>)
OUTRIGGER_ENTRY(Neighbor_alltoall, 7,
                CountedBlocking<CollectiveCall::neighbor_alltoall, &offload_neighbor_alltoall<int>>)
OUTRIGGER_PERSISTENT_ENTRY(Neighbor_alltoall_init, 9,
                           CountedPersistent<CollectiveCall::neighbor_alltoall, &offload_neighbor_alltoall<int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(
    Ineighbor_alltoall_c, 8,
    CountedNonblocking<CollectiveCall::neighbor_alltoall, &offload_neighbor_alltoall<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(
    Neighbor_alltoall_c, 7,
    CountedBlocking<CollectiveCall::neighbor_alltoall, &offload_neighbor_alltoall<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(
    Neighbor_alltoall_init_c, 9,
    CountedPersistent<CollectiveCall::neighbor_alltoall, &offload_neighbor_alltoall<MPI_Count>, Counts::large>)
#endif

}  // namespace outrigger::mpi
