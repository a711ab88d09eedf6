// MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block and MPI_Reduce_scatter_block_init.
#include "mpi/collectives/reducing.hpp"

namespace outrigger::mpi {
namespace {

template <class Count>
bool offload_reduce_scatter_block(Job& job, Form form, const void* send_buffer, void* receive_buffer, Count count,
                                  MPI_Datatype type, MPI_Op operation, MPI_Comm communicator, MPI_Request* request) {
  const auto sides_on = [&](const CommState& comm) -> std::optional<ReducedSides> {
    const auto block = static_cast<std::int64_t>(count);
    return ReducedSides{send_buffer, block * comm.size(), receive_buffer, block,
                        reduces_in_place(send_buffer, receive_buffer, count != 0)};
  };
  const ReductionCall<Count> call{Collective::ireduce_scatter_block, form, count, type, operation, communicator};
  return offload_reduction(
      job, call, request, [&] { return valid_vectors(job, send_buffer, receive_buffer, count, type); }, sides_on);
}

}  // namespace

OUTRIGGER_ENTRY(Ireduce_scatter_block, 7,
                CountedNonblocking<CollectiveCall::reduce_scatter_block, &offload_reduce_scatter_block<int>>)
OUTRIGGER_ENTRY(Reduce_scatter_block, 6,
                CountedBlocking<CollectiveCall::reduce_scatter_block, &offload_reduce_scatter_block<int>>)
OUTRIGGER_PERSISTENT_ENTRY(Reduce_scatter_block_init, 8,
                           CountedPersistent<CollectiveCall::reduce_scatter_block, &offload_reduce_scatter_block<int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(
    Ireduce_scatter_block_c, 7,
    CountedNonblocking<CollectiveCall::reduce_scatter_block, &offload_reduce_scatter_block<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(
    Reduce_scatter_block_c, 6,
    CountedBlocking<CollectiveCall::reduce_scatter_block, &offload_reduce_scatter_block<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(
    Reduce_scatter_block_init_c, 8,
    CountedPersistent<CollectiveCall::reduce_scatter_block, &offload_reduce_scatter_block<MPI_Count>, Counts::large>)
#endif

}  // namespace outrigger::mpi
