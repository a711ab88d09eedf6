// MPI_Gather, MPI_Igather and MPI_Gather_init.
#include "mpi/collectives/entry_points.hpp"

namespace outrigger::mpi {
namespace {

// Checks the arguments that are significant at the root only.
template <class Count>
bool valid_at_root_of_gather(const Job& job, const CommState& comm, const void* send_buffer, Count send_count,
                             MPI_Datatype send_type, const void* receive_buffer, Count receive_count,
                             MPI_Datatype receive_type) {
  if (!valid_side(job, receive_buffer, receive_count, receive_type)) return false;
  if (send_buffer == MPI_IN_PLACE) return true;
  const TypeShape shape = shape_of(job, receive_type);
  const std::int64_t offset = static_cast<std::int64_t>(comm.me().value()) * static_cast<std::int64_t>(receive_count);
  const void* own = offset_address(receive_buffer, offset * shape.extent);  // where the own block comes to lie
  return !aliased(send_buffer, send_type, own, receive_type, send_count == receive_count && send_count != 0);
}

template <class Count>
bool offload_gather(Job& job, Form form, const void* send_buffer, Count send_count, MPI_Datatype send_type,
                    void* receive_buffer, Count receive_count, MPI_Datatype receive_type, int root,
                    MPI_Comm communicator, MPI_Request* request) {
  const steer::CollectiveForm call = form_of(Collective::igather, form);
  // The send side is significant on all ranks, except with MPI_IN_PLACE at the root: then the receive side is used.
  const bool in_place = send_buffer == MPI_IN_PLACE;
  const Count count = in_place ? receive_count : send_count;
  const MPI_Datatype type = in_place ? receive_type : send_type;
  if (form != Form::persistent && passes(job, call, communicator, count, type)) return false;
  CallTimer timer(CallTimer::Kind::post);
  if (request == nullptr || !valid_side(job, in_place ? receive_buffer : send_buffer, count, type)) return decline();
  const TypeShape shape = shape_of(job, type);
  const std::uint64_t block_bytes = bytes_in(count, shape);
  const Offload offload = offload_on(job, form, communicator, Collective::igather, block_bytes);
  CommState* comm = offload.comm;
  if (comm == nullptr) return pass_on(offload, call, count, type, shape);
  if (!is_rank_of(*comm, root)) return decline();
  const bool is_root = static_cast<std::uint32_t>(root) == comm->me().value();
  if (is_root ? !valid_at_root_of_gather(job, *comm, send_buffer, send_count, send_type, receive_buffer, receive_count,
                                         receive_type)
              : in_place) {
    return decline();
  }
  Operation& operation = new_operation(Collective::igather, offload, in_place);
  operation.asked.root = static_cast<std::uint32_t>(root);
  operation.send.set_shared(in_place ? nullptr : send_buffer, in_place ? 0 : count, type, shape, comm->size());
  if (is_root) {
    const TypeShape receive_shape = shape_of(job, receive_type);
    operation.receive.set_regular(receive_buffer, receive_count, receive_type, receive_shape, comm->size());
  } else {
    operation.receive.set_shared(nullptr, 0, type, shape, comm->size());
  }
  return offload_operation(job, timer, offload, operation, request);
}

}  // namespace

OUTRIGGER_ENTRY(Igather, 9, CountedNonblocking<CollectiveCall::gather, &offload_gather<int>>)
OUTRIGGER_ENTRY(Gather, 8, CountedBlocking<CollectiveCall::gather, &offload_gather<int>>)
OUTRIGGER_PERSISTENT_ENTRY(Gather_init, 10, CountedPersistent<CollectiveCall::gather, &offload_gather<int>>)
#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Igather_c, 9, CountedNonblocking<CollectiveCall::gather, &offload_gather<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Gather_c, 8, CountedBlocking<CollectiveCall::gather, &offload_gather<MPI_Count>, Counts::large>)
OUTRIGGER_ENTRY(Gather_init_c, 10, CountedPersistent<CollectiveCall::gather, &offload_gather<MPI_Count>, Counts::large>)
#endif

}  // namespace outrigger::mpi
