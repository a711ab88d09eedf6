// MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block and MPI_Reduce_scatter_block_init.
#include "mpi/collectives/reducing.hpp"

namespace outrigger::mpi {
namespace {

template <class Count>
bool offload_reduce_scatter_block(Job& job, Form form, const void* send_buffer, void* receive_buffer, Count count,
                                  MPI_Datatype type, MPI_Op operation, MPI_Comm communicator, MPI_Request* request) {
  const CollectiveForm call = form_of(Collective::ireduce_scatter_block, form);
  if (form != Form::persistent && passes(job, call, communicator, count, type, handle_key(operation))) return false;
  CallTimer timer(job, CallTimer::Kind::post);
  const bool sends_own = send_buffer != MPI_IN_PLACE;
  if (request == nullptr || !valid_side(job, receive_buffer, count, type) ||
      (sends_own && !valid_side(job, send_buffer, count, type)) ||
      (sends_own && aliased(send_buffer, type, receive_buffer, type, count != 0))) {
    return decline(job);
  }
  const Reducing reducing = reducing_of(job, operation, type);
  const Offload offload = offload_on(job, form, communicator, Collective::ireduce_scatter_block,
                                     bytes_in(count, reducing.shape), false, reducing.native);
  CommState* comm = offload.comm;
  if (comm == nullptr) return pass_on(offload, call, count, type, reducing.shape, handle_key(operation));
  const auto block = static_cast<std::int64_t>(count);
  const ReducedSides sides{send_buffer, block * comm->size(), receive_buffer, block,
                           reduces_in_place(send_buffer, receive_buffer, count != 0)};
  Operation& reduces = new_reduction(Collective::ireduce_scatter_block, offload, reducing, type, sides);
  return offload_operation(job, timer, offload, reduces, request);
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
