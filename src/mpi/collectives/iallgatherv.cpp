// MPI_Allgatherv, MPI_Iallgatherv and MPI_Allgatherv_init.
#include "mpi/collectives/entry_points.hpp"

namespace outrigger::mpi {
namespace {

template <class Count, class Displacement>
bool offload_allgatherv(Job& job, Form form, const void* send_buffer, Count send_count, MPI_Datatype send_type,
                        void* receive_buffer, const Count* receive_counts, const Displacement* receive_displacements,
                        MPI_Datatype receive_type, MPI_Comm communicator, MPI_Request* request) {
  if (goes_on_natively(job, Collective::iallgatherv, form, communicator)) return false;
  CallTimer timer(CallTimer::Kind::post);
  const Offload offload = offload_on(job, form, communicator, Collective::iallgatherv, std::nullopt);
  if (CommState* native = offload.for_small_blocks()) {
    const std::uint64_t bytes = largest_block(job, receive_counts, receive_type, native->size());
    native->dispatcher().note_largest_block(Collective::iallgatherv, bytes);
  }
  CommState* comm = offload.comm;
  if (comm == nullptr) return false;
  const bool in_place = send_buffer == MPI_IN_PLACE;
  const std::uint32_t peers = comm->size();
  if (request == nullptr ||
      !valid_sides(job, receive_buffer, receive_counts, receive_displacements, receive_type, peers) ||
      (!in_place && !valid_side(job, send_buffer, send_count, send_type))) {
    return decline();
  }
  const TypeShape receive_shape = shape_of(job, receive_type);
  const std::uint32_t me = comm->me().value();
  const auto own_count = static_cast<std::int64_t>(receive_counts[me]);
  // Where the own block comes to lie.
  const void* own =
      offset_address(receive_buffer, static_cast<std::int64_t>(receive_displacements[me]) * receive_shape.extent);
  if (!in_place && aliased(send_buffer, send_type, own, receive_type, send_count != 0 && own_count != 0)) {
    return decline();
  }
  Operation& operation = new_operation(Collective::iallgatherv, offload, in_place);
  operation.receive.set_irregular(receive_buffer, receive_counts, receive_displacements, receive_type, receive_shape,
                                  peers);
  if (in_place) {
    operation.send.set_shared(own, own_count, receive_type, receive_shape, peers);
  } else {
    operation.send.set_shared(send_buffer, send_count, send_type, shape_of(job, send_type), peers);
  }
  return offload_operation(job, timer, offload, operation, request);
}

}  // namespace

OUTRIGGER_ENTRY(Iallgatherv, 9, CountedNonblocking<CollectiveCall::allgatherv, &offload_allgatherv<int, int>>)
OUTRIGGER_ENTRY(Allgatherv, 8, CountedBlocking<CollectiveCall::allgatherv, &offload_allgatherv<int, int>>)
OUTRIGGER_PERSISTENT_ENTRY(Allgatherv_init, 10,
                           CountedPersistent<CollectiveCall::allgatherv, &offload_allgatherv<int, int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Iallgatherv_c, 9,
                CountedNonblocking<CollectiveCall::allgatherv, &offload_allgatherv<MPI_Count, MPI_Aint>, Counts::large>)
OUTRIGGER_ENTRY(Allgatherv_c, 8,
                CountedBlocking<CollectiveCall::allgatherv, &offload_allgatherv<MPI_Count, MPI_Aint>, Counts::large>)
OUTRIGGER_ENTRY(Allgatherv_init_c, 10,
                CountedPersistent<CollectiveCall::allgatherv, &offload_allgatherv<MPI_Count, MPI_Aint>, Counts::large>)
#endif

}  // namespace outrigger::mpi
