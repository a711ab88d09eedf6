// MPI_Alltoallv, MPI_Ialltoallv and MPI_Alltoallv_init.
#include "mpi/collectives/entry_points.hpp"

namespace outrigger::mpi {
namespace {

template <class Count, class Displacement>
bool offload_alltoallv(Job& job, Form form, const void* send_buffer, const Count* send_counts,
                       const Displacement* send_displacements, MPI_Datatype send_type, void* receive_buffer,
                       const Count* receive_counts, const Displacement* receive_displacements,
                       MPI_Datatype receive_type, MPI_Comm communicator, MPI_Request* request) {
  if (goes_on_natively(job, Collective::ialltoallv, form, communicator)) return false;
  CallTimer timer(CallTimer::Kind::post);
  const Offload offload = offload_on(job, form, communicator, Collective::ialltoallv, std::nullopt);
  if (CommState* native = offload.for_small_blocks()) {
    const std::uint64_t bytes = largest_block(job, receive_counts, receive_type, native->size());
    native->dispatcher().note_largest_block(Collective::ialltoallv, bytes);
  }
  CommState* comm = offload.comm;
  if (comm == nullptr) return false;
  const bool in_place = send_buffer == MPI_IN_PLACE;
  const std::uint32_t peers = comm->size();
  if (request == nullptr ||
      !valid_sides(job, receive_buffer, receive_counts, receive_displacements, receive_type, peers) ||
      (!in_place && !valid_sides(job, send_buffer, send_counts, send_displacements, send_type, peers)) ||
      (!in_place && aliased(send_buffer, send_type, receive_buffer, receive_type, send_counts == receive_counts))) {
    return decline();
  }
  Operation& operation = new_operation(Collective::ialltoallv, offload, in_place);
  const TypeShape receive_shape = shape_of(job, receive_type);
  operation.receive.set_irregular(receive_buffer, receive_counts, receive_displacements, receive_type, receive_shape,
                                  peers);
  if (in_place) {
    operation.source_overwritten = true;  // blocks are received where others are sent from
    operation.send.set_irregular(receive_buffer, receive_counts, receive_displacements, receive_type, receive_shape,
                                 peers);
  } else {
    operation.send.set_irregular(send_buffer, send_counts, send_displacements, send_type, shape_of(job, send_type),
                                 peers);
  }
  return offload_operation(job, timer, offload, operation, request);
}

}  // namespace

OUTRIGGER_ENTRY(Ialltoallv, 10, CountedNonblocking<CollectiveCall::alltoallv, &offload_alltoallv<int, int>>)
OUTRIGGER_ENTRY(Alltoallv, 9, CountedBlocking<CollectiveCall::alltoallv, &offload_alltoallv<int, int>>)
OUTRIGGER_PERSISTENT_ENTRY(Alltoallv_init, 11,
                           CountedPersistent<CollectiveCall::alltoallv, &offload_alltoallv<int, int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Ialltoallv_c, 10,
                CountedNonblocking<CollectiveCall::alltoallv, &offload_alltoallv<MPI_Count, MPI_Aint>, Counts::large>)
OUTRIGGER_ENTRY(Alltoallv_c, 9,
                CountedBlocking<CollectiveCall::alltoallv, &offload_alltoallv<MPI_Count, MPI_Aint>, Counts::large>)
OUTRIGGER_ENTRY(Alltoallv_init_c, 11,
                CountedPersistent<CollectiveCall::alltoallv, &offload_alltoallv<MPI_Count, MPI_Aint>, Counts::large>)
#endif

}  // namespace outrigger::mpi
