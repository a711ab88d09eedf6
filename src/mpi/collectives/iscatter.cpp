// MPI_Scatter, MPI_Iscatter and MPI_Scatter_init.
#include "mpi/collectives/entry_points.hpp"

namespace outrigger::mpi {
namespace {

// Checks the arguments that are significant at the root only.
template <class Count>
bool valid_at_root_of_scatter(const Job& job, const CommState& comm, const void* send_buffer, Count send_count,
                              MPI_Datatype send_type, const void* receive_buffer, Count receive_count,
                              MPI_Datatype receive_type) {
  if (!valid_side(job, send_buffer, send_count, send_type)) return false;
  if (receive_buffer == MPI_IN_PLACE) return true;
  const std::int64_t offset = static_cast<std::int64_t>(comm.me().value()) * static_cast<std::int64_t>(send_count);
  const void* own = offset_address(send_buffer, offset * shape_of(job, send_type).extent);
  return !aliased(own, send_type, receive_buffer, receive_type, send_count == receive_count && send_count != 0);
}

template <class Count>
bool offload_scatter(Job& job, Form form, const void* send_buffer, Count send_count, MPI_Datatype send_type,
                     void* receive_buffer, Count receive_count, MPI_Datatype receive_type, int root,
                     MPI_Comm communicator, MPI_Request* request) {
  const steer::CollectiveForm call = form_of(Collective::iscatter, form);
  // The receive side is significant on all ranks, except with MPI_IN_PLACE at the root: then the send side is used.
  const bool in_place = receive_buffer == MPI_IN_PLACE;
  const Count count = in_place ? send_count : receive_count;
  const MPI_Datatype type = in_place ? send_type : receive_type;
  if (form != Form::persistent && passes(job, call, communicator, count, type)) return false;
  CallTimer timer(CallTimer::Kind::post);
  if (request == nullptr || !valid_side(job, in_place ? send_buffer : receive_buffer, count, type)) return decline();
  const TypeShape shape = shape_of(job, type);
  const std::uint64_t block_bytes = bytes_in(count, shape);
  const Offload offload = offload_on(job, form, communicator, Collective::iscatter, block_bytes);
  CommState* comm = offload.comm;
  if (comm == nullptr) return pass_on(offload, call, count, type, shape);
  if (!is_rank_of(*comm, root)) return decline();
  const bool is_root = static_cast<std::uint32_t>(root) == comm->me().value();
  if (is_root ? !valid_at_root_of_scatter(job, *comm, send_buffer, send_count, send_type, receive_buffer, receive_count,
                                          receive_type)
              : in_place) {
    return decline();
  }
  Operation& operation = new_operation(Collective::iscatter, offload, in_place);
  operation.asked.root = static_cast<std::uint32_t>(root);
  operation.receive.set_shared(in_place ? nullptr : receive_buffer, in_place ? 0 : count, type, shape, comm->size());
  if (is_root) {
    operation.send.set_regular(send_buffer, send_count, send_type, shape_of(job, send_type), comm->size());
  } else {
    operation.send.set_shared(nullptr, 0, type, shape, comm->size());
  }
  return offload_operation(job, timer, offload, operation, request);
}

}  // namespace

OUTRIGGER_ENTRY(Iscatter, 9, CountedNonblocking<CollectiveCall::scatter, &offload_scatter<int>>)
OUTRIGGER_ENTRY(Scatter, 8, CountedBlocking<CollectiveCall::scatter, &offload_scatter<int>>)
OUTRIGGER_PERSISTENT_ENTRY(Scatter_init, 10, CountedPersistent<CollectiveCall::scatter, &offload_scatter<int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Iscatter_c, 9, CountedNonblocking<CollectiveCall::scatter, &offload_scatter<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Scatter_c, 8, CountedBlocking<CollectiveCall::scatter, &offload_scatter<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Scatter_init_c, 10,
                CountedPersistent<CollectiveCall::scatter, &offload_scatter<MPI_Count>, Counts::large>)
#endif

}  // namespace outrigger::mpi
