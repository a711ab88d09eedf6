// MPI_Allreduce, MPI_Iallreduce and MPI_Allreduce_init.
#include "mpi/collectives/reducing.hpp"

namespace outrigger::mpi {
namespace {

// Open MPI looks for that from two elements on; all others bear it nowhere.
template <class Count>
bool is_refused_in_one_buffer(Count count) {
  return count > (constants().rejects_aliases ? 0 : 1);
}

template <class Count>
bool offload_allreduce(Job& job, Form form, const void* send_buffer, void* receive_buffer, Count count,
                       MPI_Datatype type, MPI_Op operation, MPI_Comm communicator, MPI_Request* request) {
  const auto is_valid = [&] {
    const bool sends_own = send_buffer != MPI_IN_PLACE;
    return valid_side(job, receive_buffer, count, type) && (!sends_own || valid_side(job, send_buffer, count, type)) &&
           (send_buffer != receive_buffer || !is_refused_in_one_buffer(count));
  };
  const auto sides_on = [&](const CommState& /*comm*/) -> std::optional<ReducedSides> {
    return ReducedSides{send_buffer, count, receive_buffer, count,
                        reduces_in_place(send_buffer, receive_buffer, count != 0)};
  };
  const ReductionCall<Count> call{Collective::iallreduce, form, count, type, operation, communicator};
  return offload_reduction(job, call, request, is_valid, sides_on);
}

}  // namespace

OUTRIGGER_ENTRY(Iallreduce, 7, CountedNonblocking<CollectiveCall::allreduce, &offload_allreduce<int>>)
OUTRIGGER_ENTRY(Allreduce, 6, CountedBlocking<CollectiveCall::allreduce, &offload_allreduce<int>>)
OUTRIGGER_PERSISTENT_ENTRY(Allreduce_init, 8, CountedPersistent<CollectiveCall::allreduce, &offload_allreduce<int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Iallreduce_c, 7,
                CountedNonblocking<CollectiveCall::allreduce, &offload_allreduce<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Allreduce_c, 6,
                CountedBlocking<CollectiveCall::allreduce, &offload_allreduce<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Allreduce_init_c, 8,
                CountedPersistent<CollectiveCall::allreduce, &offload_allreduce<MPI_Count>, Counts::large>)
#endif

}  // namespace outrigger::mpi
