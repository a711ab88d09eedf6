// MPI_Reduce, MPI_Ireduce and MPI_Reduce_init.
#include "mpi/collectives/reducing.hpp"

namespace outrigger::mpi {
namespace {

// Checks the arguments that are significant at the root only.
template <class Count>
bool valid_at_root(const Job& job, const void* send_buffer, const void* receive_buffer, Count count,
                   MPI_Datatype type) {
  if (!valid_side(job, receive_buffer, count, type)) return false;
  return send_buffer != receive_buffer || count == 0;  // not even Open MPI bears it
}

template <class Count>
bool offload_reduce(Job& job, Form form, const void* send_buffer, void* receive_buffer, Count count, MPI_Datatype type,
                    MPI_Op operation, int root, MPI_Comm communicator, MPI_Request* request) {
  const bool sends_own = send_buffer != MPI_IN_PLACE;
  const auto is_valid = [&] {
    return count >= 0 && valid_type(job, type) && (!sends_own || valid_side(job, send_buffer, count, type));
  };
  const auto sides_on = [&](const CommState& comm) -> std::optional<ReducedSides> {
    if (!is_rank_of(comm, root)) return std::nullopt;
    const auto root_rank = static_cast<std::uint32_t>(root);
    if (root_rank != comm.me().value()) {
      if (!sends_own) return std::nullopt;
      return ReducedSides{
          .from = send_buffer, .sent = count, .to = nullptr, .received = 0, .in_place = false, .root = root_rank};
    }
    if (!valid_at_root(job, send_buffer, receive_buffer, count, type)) return std::nullopt;
    return ReducedSides{.from = send_buffer,
                        .sent = count,
                        .to = receive_buffer,
                        .received = count,
                        .in_place = !sends_own,
                        .root = root_rank};
  };
  const ReductionCall<Count> call{Collective::ireduce, form, count, type, operation, communicator};
  return offload_reduction(job, call, request, is_valid, sides_on);
}

}  // namespace

OUTRIGGER_ENTRY(Ireduce, 8, CountedNonblocking<CollectiveCall::reduce, &offload_reduce<int>>)
OUTRIGGER_ENTRY(Reduce, 7, CountedBlocking<CollectiveCall::reduce, &offload_reduce<int>>)
OUTRIGGER_PERSISTENT_ENTRY(Reduce_init, 9, CountedPersistent<CollectiveCall::reduce, &offload_reduce<int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Ireduce_c, 8, CountedNonblocking<CollectiveCall::reduce, &offload_reduce<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Reduce_c, 7, CountedBlocking<CollectiveCall::reduce, &offload_reduce<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Reduce_init_c, 9, CountedPersistent<CollectiveCall::reduce, &offload_reduce<MPI_Count>, Counts::large>)
#endif

}  // namespace outrigger::mpi
