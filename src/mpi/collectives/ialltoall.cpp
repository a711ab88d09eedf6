// MPI_Alltoall and MPI_Ialltoall.
#include "mpi/collectives/collective.hpp"

namespace outrigger::mpi {
namespace {

template <class Count>
bool offload_alltoall(Job& job, Form form, Word send_buffer_word, Word send_count_word, Word send_type_word,
                      Word receive_buffer_word, Word receive_count_word, Word receive_type_word, Word comm_word,
                      Word request_word) {
  CallTimer timer(job, CallTimer::Kind::post);
  const auto* send_buffer = argument<const void*>(send_buffer_word);
  const auto send_count = argument<Count>(send_count_word);
  const auto send_type = argument<MPI_Datatype>(send_type_word);
  auto* receive_buffer = argument<void*>(receive_buffer_word);
  const auto receive_count = argument<Count>(receive_count_word);
  const auto receive_type = argument<MPI_Datatype>(receive_type_word);
  auto* request = argument<MPI_Request*>(request_word);
  const bool in_place = send_buffer == MPI_IN_PLACE;
  if (request == nullptr || !valid_side(job, receive_buffer, receive_count, receive_type) ||
      (!in_place && !valid_side(job, send_buffer, send_count, send_type)) ||
      (!in_place &&
       aliased(send_buffer, send_type, receive_buffer, receive_type, send_count == receive_count && send_count != 0))) {
    return decline(job, Collective::ialltoall, nullptr);
  }
  const TypeShape receive_shape = shape_of(job, receive_type);
  const std::uint64_t block_bytes = bytes_in(receive_count, receive_shape);
  const Offload offload = offload_on(job, form, argument<MPI_Comm>(comm_word), Collective::ialltoall, block_bytes);
  CommState* comm = offload.comm;
  if (comm == nullptr) return false;
  Operation& operation = new_operation(Collective::ialltoall, offload, in_place);
  operation.receive.set_regular(receive_buffer, receive_count, receive_type, receive_shape, comm->size());
  if (in_place) {
    operation.source_overwritten = true;  // blocks are received where others are sent from
    operation.send.set_regular(receive_buffer, receive_count, receive_type, receive_shape, comm->size());
  } else {
    operation.send.set_regular(send_buffer, send_count, send_type, shape_of(job, send_type), comm->size());
  }
  return offload_operation(job, timer, operation, request);
}

}  // namespace

OUTRIGGER_ENTRY(Ialltoall, (Word send_buffer, Word send_count, Word send_type, Word receive_buffer, Word receive_count,
                            Word receive_type, Word comm, Word request)) {
  return offload_or_pass(Call::Ialltoall, &offload_alltoall<int>, __builtin_return_address(0), send_buffer, send_count,
                         send_type, receive_buffer, receive_count, receive_type, comm, request);
}

OUTRIGGER_ENTRY(Alltoall, (Word send_buffer, Word send_count, Word send_type, Word receive_buffer, Word receive_count,
                           Word receive_type, Word comm)) {
  return complete_or_pass(Call::Alltoall, &offload_alltoall<int>, __builtin_return_address(0), send_buffer, send_count,
                          send_type, receive_buffer, receive_count, receive_type, comm);
}

#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Ialltoall_c, (Word send_buffer, Word send_count, Word send_type, Word receive_buffer,
                              Word receive_count, Word receive_type, Word comm, Word request)) {
  return offload_or_pass(Call::Ialltoall_c, &offload_alltoall<MPI_Count>, __builtin_return_address(0), send_buffer,
                         send_count, send_type, receive_buffer, receive_count, receive_type, comm, request);
}

OUTRIGGER_ENTRY(Alltoall_c, (Word send_buffer, Word send_count, Word send_type, Word receive_buffer, Word receive_count,
                             Word receive_type, Word comm)) {
  return complete_or_pass(Call::Alltoall_c, &offload_alltoall<MPI_Count>, __builtin_return_address(0), send_buffer,
                          send_count, send_type, receive_buffer, receive_count, receive_type, comm);
}
#endif

}  // namespace outrigger::mpi
