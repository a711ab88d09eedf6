// MPI_Gatherv, MPI_Igatherv and MPI_Gatherv_init.
#include <utility>

#include "mpi/collectives/entry_points.hpp"

namespace outrigger::mpi {
namespace {

// Checks the arguments that are significant at the root only.
template <class Count, class Displacement>
bool valid_at_root_of_gatherv(const Job& job, const CommState& comm, const void* send_buffer, Count send_count,
                              MPI_Datatype send_type, const void* receive_buffer, const Count* receive_counts,
                              const Displacement* receive_displacements, MPI_Datatype receive_type) {
  if (!valid_sides(job, receive_buffer, receive_counts, receive_displacements, receive_type, comm.size())) return false;
  if (send_buffer == MPI_IN_PLACE) return true;
  const std::uint32_t me = comm.me().value();
  const std::int64_t offset = static_cast<std::int64_t>(receive_displacements[me]) * shape_of(job, receive_type).extent;
  const void* own = offset_address(receive_buffer, offset);  // where the own block comes to lie
  return !aliased(send_buffer, send_type, own, receive_type, send_count != 0 && receive_counts[me] != 0);
}

template <class Count, class Displacement>
bool offload_gatherv(Job& job, Form form, const void* send_buffer, Count send_count, MPI_Datatype send_type,
                     void* receive_buffer, const Count* receive_counts, const Displacement* receive_displacements,
                     MPI_Datatype receive_type, int root, MPI_Comm communicator, MPI_Request* request) {
  if (goes_on_natively(job, Collective::igatherv, form, communicator)) return false;
  CallTimer timer(CallTimer::Kind::post);
  const Offload offload = offload_on(job, form, communicator, Collective::igatherv, std::nullopt);
  if (CommState* native = offload.for_small_blocks()) {
    const bool at_root = std::cmp_equal(root, native->me().value());
    const std::uint64_t bytes = at_root ? largest_block(job, receive_counts, receive_type, native->size())
                                        : largest_block(job, &send_count, send_type, 1);
    native->dispatcher().note_largest_block(Collective::igatherv, bytes);
  }
  CommState* comm = offload.comm;
  if (comm == nullptr) return false;
  const bool in_place = send_buffer == MPI_IN_PLACE;
  if (request == nullptr || !is_rank_of(*comm, root) ||
      (!in_place && !valid_side(job, send_buffer, send_count, send_type))) {
    return decline();
  }
  const bool is_root = static_cast<std::uint32_t>(root) == comm->me().value();
  if (is_root ? !valid_at_root_of_gatherv(job, *comm, send_buffer, send_count, send_type, receive_buffer,
                                          receive_counts, receive_displacements, receive_type)
              : in_place) {
    return decline();
  }
  Operation& operation = new_operation(Collective::igatherv, offload, in_place);
  operation.asked.root = static_cast<std::uint32_t>(root);
  const MPI_Datatype type = in_place ? receive_type : send_type;
  const TypeShape shape = shape_of(job, type);
  operation.send.set_shared(in_place ? nullptr : send_buffer, in_place ? 0 : send_count, type, shape, comm->size());
  if (is_root) {
    operation.receive.set_irregular(receive_buffer, receive_counts, receive_displacements, receive_type,
                                    shape_of(job, receive_type), comm->size());
  } else {
    operation.receive.set_shared(nullptr, 0, type, shape, comm->size());
  }
  return offload_operation(job, timer, offload, operation, request);
}

}  // namespace

OUTRIGGER_ENTRY(Igatherv, 10, CountedNonblocking<CollectiveCall::gatherv, &offload_gatherv<int, int>>)
OUTRIGGER_ENTRY(Gatherv, 9, CountedBlocking<CollectiveCall::gatherv, &offload_gatherv<int, int>>)
OUTRIGGER_PERSISTENT_ENTRY(Gatherv_init, 11, CountedPersistent<CollectiveCall::gatherv, &offload_gatherv<int, int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Igatherv_c, 10,
                CountedNonblocking<CollectiveCall::gatherv, &offload_gatherv<MPI_Count, MPI_Aint>, Counts::large>)
OUTRIGGER_ENTRY(Gatherv_c, 9,
                CountedBlocking<CollectiveCall::gatherv, &offload_gatherv<MPI_Count, MPI_Aint>, Counts::large>)
OUTRIGGER_ENTRY(Gatherv_init_c, 11,
                CountedPersistent<CollectiveCall::gatherv, &offload_gatherv<MPI_Count, MPI_Aint>, Counts::large>)
#endif

}  // namespace outrigger::mpi
