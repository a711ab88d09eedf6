// MPI_Exscan, MPI_Iexscan and MPI_Exscan_init.
#include "mpi/collectives/reducing.hpp"

namespace outrigger::mpi {
namespace {

// The first rank's receive buffer does not count, unless it is what it sends from.
template <class Count>
bool offload_exscan(Job& job, Form form, const void* send_buffer, void* receive_buffer, Count count, MPI_Datatype type,
                    MPI_Op operation, MPI_Comm communicator, MPI_Request* request) {
  const auto is_valid = [&] {
    return send_buffer == MPI_IN_PLACE ? valid_side(job, receive_buffer, count, type)
                                       : valid_side(job, send_buffer, count, type);
  };
  const auto sides_on = [&](const CommState& comm) -> std::optional<ReducedSides> {
    const bool is_first = comm.me().value() == 0;
    if (!is_first && !valid_vectors(job, send_buffer, receive_buffer, count, type)) return std::nullopt;
    return ReducedSides{send_buffer, count, receive_buffer, is_first ? 0 : count,
                        reduces_in_place(send_buffer, receive_buffer, count != 0)};
  };
  const ReductionCall<Count> call{Collective::iexscan, form, count, type, operation, communicator};
  return offload_reduction(job, call, request, is_valid, sides_on);
}

}  // namespace

OUTRIGGER_ENTRY(Iexscan, 7, CountedNonblocking<CollectiveCall::exscan, &offload_exscan<int>>)
OUTRIGGER_ENTRY(Exscan, 6, CountedBlocking<CollectiveCall::exscan, &offload_exscan<int>>)
OUTRIGGER_PERSISTENT_ENTRY(Exscan_init, 8, CountedPersistent<CollectiveCall::exscan, &offload_exscan<int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Iexscan_c, 7, CountedNonblocking<CollectiveCall::exscan, &offload_exscan<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Exscan_c, 6, CountedBlocking<CollectiveCall::exscan, &offload_exscan<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Exscan_init_c, 8, CountedPersistent<CollectiveCall::exscan, &offload_exscan<MPI_Count>, Counts::large>)
#endif

}  // namespace outrigger::mpi
