// MPI_Allgather, MPI_Iallgather and MPI_Allgather_init.
#include "mpi/collectives/entry_points.hpp"

namespace outrigger::mpi {
namespace {

template <class Count>
bool offload_allgather(Job& job, Form form, const void* send_buffer, Count send_count, MPI_Datatype send_type,
                       void* receive_buffer, Count receive_count, MPI_Datatype receive_type, MPI_Comm communicator,
                       MPI_Request* request) {
  const steer::CollectiveForm call = form_of(Collective::iallgather, form);
  if (form != Form::persistent && passes(job, call, communicator, receive_count, receive_type)) return false;
  CallTimer timer(CallTimer::Kind::post);
  const bool in_place = send_buffer == MPI_IN_PLACE;
  if (request == nullptr || !valid_side(job, receive_buffer, receive_count, receive_type) ||
      (!in_place && !valid_side(job, send_buffer, send_count, send_type))) {
    return decline();
  }
  const TypeShape receive_shape = shape_of(job, receive_type);
  const std::uint64_t block_bytes = bytes_in(receive_count, receive_shape);
  const Offload offload = offload_on(job, form, communicator, Collective::iallgather, block_bytes);
  CommState* comm = offload.comm;
  if (comm == nullptr) return pass_on(offload, call, receive_count, receive_type, receive_shape);
  const std::uint32_t me = comm->me().value();
  // Where the own block comes to lie.
  const void* own =
      offset_address(receive_buffer, static_cast<std::int64_t>(me) * receive_count * receive_shape.extent);
  if (!in_place && aliased(send_buffer, send_type, own, receive_type, send_count == receive_count && send_count != 0)) {
    return decline();
  }
  Operation& operation = new_operation(Collective::iallgather, offload, in_place);
  operation.receive.set_regular(receive_buffer, receive_count, receive_type, receive_shape, comm->size());
  if (in_place) {
    operation.send.set_shared(own, receive_count, receive_type, receive_shape, comm->size());
  } else {
    operation.send.set_shared(send_buffer, send_count, send_type, shape_of(job, send_type), comm->size());
  }
  return offload_operation(job, timer, offload, operation, request);
}

}  // namespace

OUTRIGGER_ENTRY(Iallgather, 8, CountedNonblocking<CollectiveCall::allgather, &offload_allgather<int>>)
OUTRIGGER_ENTRY(Allgather, 7, CountedBlocking<CollectiveCall::allgather, &offload_allgather<int>>)
OUTRIGGER_PERSISTENT_ENTRY(Allgather_init, 9, CountedPersistent<CollectiveCall::allgather, &offload_allgather<int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Iallgather_c, 8,
                CountedNonblocking<CollectiveCall::allgather, &offload_allgather<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Allgather_c, 7,
                CountedBlocking<CollectiveCall::allgather, &offload_allgather<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Allgather_init_c, 9,
                CountedPersistent<CollectiveCall::allgather, &offload_allgather<MPI_Count>, Counts::large>)
#endif

}  // namespace outrigger::mpi
