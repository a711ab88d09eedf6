// MPI_Scatterv, MPI_Iscatterv and MPI_Scatterv_init.
#include <utility>

#include "mpi/collectives/entry_points.hpp"

namespace outrigger::mpi {
namespace {

// Checks the arguments that are significant at the root only.
template <class Count, class Displacement>
bool valid_at_root_of_scatterv(const Job& job, const CommState& comm, const void* send_buffer, const Count* send_counts,
                               const Displacement* send_displacements, MPI_Datatype send_type,
                               const void* receive_buffer, Count receive_count, MPI_Datatype receive_type) {
  if (!valid_sides(job, send_buffer, send_counts, send_displacements, send_type, comm.size())) return false;
  if (receive_buffer == MPI_IN_PLACE) return true;
  const std::uint32_t me = comm.me().value();
  const std::int64_t offset = static_cast<std::int64_t>(send_displacements[me]) * shape_of(job, send_type).extent;
  const void* own = offset_address(send_buffer, offset);
  return !aliased(own, send_type, receive_buffer, receive_type, send_counts[me] != 0 && receive_count != 0);
}

template <class Count, class Displacement>
bool offload_scatterv(Job& job, Form form, const void* send_buffer, const Count* send_counts,
                      const Displacement* send_displacements, MPI_Datatype send_type, void* receive_buffer,
                      Count receive_count, MPI_Datatype receive_type, int root, MPI_Comm communicator,
                      MPI_Request* request) {
  if (goes_on_natively(job, Collective::iscatterv, form, communicator)) return false;
  CallTimer timer(CallTimer::Kind::post);
  const Offload offload = offload_on(job, form, communicator, Collective::iscatterv, std::nullopt);
  if (CommState* native = offload.for_small_blocks()) {
    const bool at_root = std::cmp_equal(root, native->me().value());
    const std::uint64_t bytes = at_root ? largest_block(job, send_counts, send_type, native->size())
                                        : largest_block(job, &receive_count, receive_type, 1);
    native->dispatcher().note_largest_block(Collective::iscatterv, bytes);
  }
  CommState* comm = offload.comm;
  if (comm == nullptr) return false;
  const bool in_place = receive_buffer == MPI_IN_PLACE;
  if (request == nullptr || !is_rank_of(*comm, root) ||
      (!in_place && !valid_side(job, receive_buffer, receive_count, receive_type))) {
    return decline();
  }
  const bool is_root = static_cast<std::uint32_t>(root) == comm->me().value();
  if (is_root ? !valid_at_root_of_scatterv(job, *comm, send_buffer, send_counts, send_displacements, send_type,
                                           receive_buffer, receive_count, receive_type)
              : in_place) {
    return decline();
  }
  Operation& operation = new_operation(Collective::iscatterv, offload, in_place);
  operation.asked.root = static_cast<std::uint32_t>(root);
  const MPI_Datatype type = in_place ? send_type : receive_type;
  const TypeShape shape = shape_of(job, type);
  operation.receive.set_shared(in_place ? nullptr : receive_buffer, in_place ? 0 : receive_count, type, shape,
                               comm->size());
  if (is_root) {
    operation.send.set_irregular(send_buffer, send_counts, send_displacements, send_type, shape_of(job, send_type),
                                 comm->size());
  } else {
    operation.send.set_shared(nullptr, 0, type, shape, comm->size());
  }
  return offload_operation(job, timer, offload, operation, request);
}

}  // namespace

OUTRIGGER_ENTRY(Iscatterv, 10, CountedNonblocking<CollectiveCall::scatterv, &offload_scatterv<int, int>>)
OUTRIGGER_ENTRY(Scatterv, 9, CountedBlocking<CollectiveCall::scatterv, &offload_scatterv<int, int>>)
OUTRIGGER_PERSISTENT_ENTRY(Scatterv_init, 11, CountedPersistent<CollectiveCall::scatterv, &offload_scatterv<int, int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Iscatterv_c, 10,
                CountedNonblocking<CollectiveCall::scatterv, &offload_scatterv<MPI_Count, MPI_Aint>, Counts::large>)
OUTRIGGER_ENTRY(Scatterv_c, 9,
                CountedBlocking<CollectiveCall::scatterv, &offload_scatterv<MPI_Count, MPI_Aint>, Counts::large>)
OUTRIGGER_ENTRY(Scatterv_init_c, 11,
                CountedPersistent<CollectiveCall::scatterv, &offload_scatterv<MPI_Count, MPI_Aint>, Counts::large>)
#endif

}  // namespace outrigger::mpi
