// MPI_Alltoall, MPI_Ialltoall and MPI_Alltoall_init.
#include "mpi/collectives/entry_points.hpp"

namespace outrigger::mpi {
namespace {

template <class Count>
bool offload_alltoall(Job& job, Form form, const void* send_buffer, Count send_count, MPI_Datatype send_type,
                      void* receive_buffer, Count receive_count, MPI_Datatype receive_type, MPI_Comm communicator,
                      MPI_Request* request) {
  const steer::CollectiveForm call = form_of(Collective::ialltoall, form);
  if (form != Form::persistent && passes(job, call, communicator, receive_count, receive_type)) return false;
  CallTimer timer(CallTimer::Kind::post);
  const bool in_place = send_buffer == MPI_IN_PLACE;
  if (request == nullptr || !valid_side(job, receive_buffer, receive_count, receive_type) ||
      (!in_place && !valid_side(job, send_buffer, send_count, send_type)) ||
      (!in_place &&
       aliased(send_buffer, send_type, receive_buffer, receive_type, send_count == receive_count && send_count != 0))) {
    return decline();
  }
  const TypeShape receive_shape = shape_of(job, receive_type);
  const std::uint64_t block_bytes = bytes_in(receive_count, receive_shape);
  const Offload offload = offload_on(job, form, communicator, Collective::ialltoall, block_bytes);
  CommState* comm = offload.comm;
  if (comm == nullptr) return pass_on(offload, call, receive_count, receive_type, receive_shape);
  Operation& operation = new_operation(Collective::ialltoall, offload, in_place);
  operation.receive.set_regular(receive_buffer, receive_count, receive_type, receive_shape, comm->size());
  if (in_place) {
    operation.source_overwritten = true;  // blocks are received where others are sent from
    operation.send.set_regular(receive_buffer, receive_count, receive_type, receive_shape, comm->size());
  } else {
    operation.send.set_regular(send_buffer, send_count, send_type, shape_of(job, send_type), comm->size());
  }
  return offload_operation(job, timer, offload, operation, request);
}

}  // namespace

OUTRIGGER_ENTRY(Ialltoall, 8, CountedNonblocking<CollectiveCall::alltoall, &offload_alltoall<int>>)
OUTRIGGER_ENTRY(Alltoall, 7, CountedBlocking<CollectiveCall::alltoall, &offload_alltoall<int>>)
OUTRIGGER_PERSISTENT_ENTRY(Alltoall_init, 9, CountedPersistent<CollectiveCall::alltoall, &offload_alltoall<int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Ialltoall_c, 8,
                CountedNonblocking<CollectiveCall::alltoall, &offload_alltoall<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Alltoall_c, 7, CountedBlocking<CollectiveCall::alltoall, &offload_alltoall<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Alltoall_init_c, 9,
                CountedPersistent<CollectiveCall::alltoall, &offload_alltoall<MPI_Count>, Counts::large>)
#endif

}  // namespace outrigger::mpi
