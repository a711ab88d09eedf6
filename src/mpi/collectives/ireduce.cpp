// MPI_Reduce, MPI_Ireduce and MPI_Reduce_init.
#include "mpi/collectives/reducing.hpp"

namespace outrigger::mpi {
namespace {

// What counts at the root alone.
template <class Count>
bool valid_at_root(const Job& job, const void* send_buffer, const void* receive_buffer, Count count,
                   MPI_Datatype type) {
  if (!valid_side(job, receive_buffer, count, type)) return false;
  return send_buffer != receive_buffer || count == 0;  // not even Open MPI bears it
}

template <class Count>
bool offload_reduce(Job& job, Form form, const void* send_buffer, void* receive_buffer, Count count, MPI_Datatype type,
                    MPI_Op operation, int root, MPI_Comm communicator, MPI_Request* request) {
  const CollectiveForm call = form_of(Collective::ireduce, form);
  if (form != Form::persistent && passes(job, call, communicator, count, type, handle_key(operation))) return false;
  CallTimer timer(job, CallTimer::Kind::post);
  const bool sends_own = send_buffer != MPI_IN_PLACE;
  if (request == nullptr || count < 0 || !valid_type(job, type) ||
      (sends_own && !valid_side(job, send_buffer, count, type))) {
    return decline(job);
  }
  const Reducing reducing = reducing_of(job, operation, type);
  const Offload offload =
      offload_on(job, form, communicator, Collective::ireduce, bytes_in(count, reducing.shape), false, reducing.native);
  CommState* comm = offload.comm;
  if (comm == nullptr) return pass_on(offload, call, count, type, reducing.shape, handle_key(operation));
  if (!is_rank_of(*comm, root)) return decline(job);
  const bool is_root = static_cast<std::uint32_t>(root) == comm->me().value();
  if (is_root ? !valid_at_root(job, send_buffer, receive_buffer, count, type) : !sends_own) return decline(job);
  const ReducedSides sides{send_buffer, count, is_root ? receive_buffer : nullptr, is_root ? count : 0, !sends_own};
  Operation& reduces = new_reduction(Collective::ireduce, offload, reducing, type, sides);
  reduces.root = static_cast<std::uint32_t>(root);
  return offload_operation(job, timer, offload, reduces, request);
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
