// MPI_Alltoallw, MPI_Ialltoallw and MPI_Alltoallw_init: a type and a displacement in bytes for every peer.
#include "mpi/collectives/entry_points.hpp"

namespace outrigger::mpi {
namespace {

template <class Count, class Displacement>
bool offload_alltoallw(Job& job, Form form, const void* send_buffer, const Count* send_counts,
                       const Displacement* send_displacements, const MPI_Datatype* send_types, void* receive_buffer,
                       const Count* receive_counts, const Displacement* receive_displacements,
                       const MPI_Datatype* receive_types, MPI_Comm communicator, MPI_Request* request) {
  if (goes_on_natively(job, Collective::ialltoallw, form, communicator)) return false;
  CallTimer timer(CallTimer::Kind::post);
  const Offload offload = offload_on(job, form, communicator, Collective::ialltoallw, std::nullopt);
  if (CommState* native = offload.for_small_blocks()) {
    const std::uint64_t bytes = largest_block(job, receive_counts, receive_types, native->size());
    native->dispatcher().note_largest_block(Collective::ialltoallw, bytes);
  }
  CommState* comm = offload.comm;
  if (comm == nullptr) return false;
  const bool in_place = send_buffer == MPI_IN_PLACE;
  const std::uint32_t peers = comm->size();
  if (request == nullptr ||
      !valid_typed_sides(job, receive_buffer, receive_counts, receive_displacements, receive_types, peers) ||
      (!in_place && !valid_typed_sides(job, send_buffer, send_counts, send_displacements, send_types, peers)) ||
      (!in_place && aliased_w(send_buffer, send_types, receive_buffer, receive_types, send_counts == receive_counts))) {
    return decline();
  }
  Operation& operation = new_operation(Collective::ialltoallw, offload, in_place);
  operation.receive.set_typed(job, receive_buffer, receive_counts, receive_displacements, receive_types, peers);
  if (in_place) {
    operation.source_overwritten = true;  // blocks are received where others are sent from
    operation.send.set_typed(job, receive_buffer, receive_counts, receive_displacements, receive_types, peers);
  } else {
    operation.send.set_typed(job, send_buffer, send_counts, send_displacements, send_types, peers);
  }
  return offload_operation(job, timer, offload, operation, request);
}

}  // namespace

OUTRIGGER_ENTRY(Ialltoallw, 10, CountedNonblocking<CollectiveCall::alltoallw, &offload_alltoallw<int, int>>)
OUTRIGGER_ENTRY(Alltoallw, 9, CountedBlocking<CollectiveCall::alltoallw, &offload_alltoallw<int, int>>)
OUTRIGGER_PERSISTENT_ENTRY(Alltoallw_init, 11,
                           CountedPersistent<CollectiveCall::alltoallw, &offload_alltoallw<int, int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Ialltoallw_c, 10,
                CountedNonblocking<CollectiveCall::alltoallw, &offload_alltoallw<MPI_Count, MPI_Aint>, Counts::large>)
OUTRIGGER_ENTRY(Alltoallw_c, 9,
                CountedBlocking<CollectiveCall::alltoallw, &offload_alltoallw<MPI_Count, MPI_Aint>, Counts::large>)
OUTRIGGER_ENTRY(Alltoallw_init_c, 11,
                CountedPersistent<CollectiveCall::alltoallw, &offload_alltoallw<MPI_Count, MPI_Aint>, Counts::large>)
#endif

}  // namespace outrigger::mpi
