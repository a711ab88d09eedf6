// MPI_Bcast, MPI_Ibcast and MPI_Bcast_init.
#include "mpi/collectives/entry_points.hpp"

namespace outrigger::mpi {
namespace {

template <class Count>
bool offload_bcast(Job& job, Form form, void* buffer, Count count, MPI_Datatype type, int root, MPI_Comm communicator,
                   MPI_Request* request) {
  const steer::CollectiveForm call = form_of(Collective::ibcast, form);
  if (form != Form::persistent && passes(job, call, communicator, count, type)) return false;
  CallTimer timer(CallTimer::Kind::post);
  if (request == nullptr || !valid_side(job, buffer, count, type)) return decline();
  const TypeShape shape = shape_of(job, type);
  const std::uint64_t block_bytes = bytes_in(count, shape);
  const Offload offload = offload_on(job, form, communicator, Collective::ibcast, block_bytes);
  CommState* comm = offload.comm;
  if (comm == nullptr) return pass_on(offload, call, count, type, shape);
  if (!is_rank_of(*comm, root)) return decline();
  Operation& operation = new_operation(Collective::ibcast, offload, false);
  operation.asked.root = static_cast<std::uint32_t>(root);
  const bool sends = *operation.asked.root == comm->me().value();
  operation.send.set_shared(buffer, sends ? count : 0, type, shape, comm->size());
  operation.receive.set_shared(buffer, sends ? 0 : count, type, shape, comm->size());
  return offload_operation(job, timer, offload, operation, request);
}

}  // namespace

OUTRIGGER_ENTRY(Ibcast, 6, CountedNonblocking<CollectiveCall::bcast, &offload_bcast<int>>)
OUTRIGGER_ENTRY(Bcast, 5, CountedBlocking<CollectiveCall::bcast, &offload_bcast<int>>)
OUTRIGGER_PERSISTENT_ENTRY(Bcast_init, 7, CountedPersistent<CollectiveCall::bcast, &offload_bcast<int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Ibcast_c, 6, CountedNonblocking<CollectiveCall::bcast, &offload_bcast<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Bcast_c, 5, CountedBlocking<CollectiveCall::bcast, &offload_bcast<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Bcast_init_c, 7, CountedPersistent<CollectiveCall::bcast, &offload_bcast<MPI_Count>, Counts::large>)
#endif

}  // namespace outrigger::mpi
