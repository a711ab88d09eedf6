// MPI_Allgatherv and MPI_Iallgatherv.
#include "mpi/collectives/collective.hpp"

namespace outrigger::mpi {
namespace {

template <class Count, class Displacement>
bool offload_allgatherv(Job& job, Form form, Word send_buffer_word, Word send_count_word, Word send_type_word,
                        Word receive_buffer_word, Word receive_counts_word, Word receive_displacements_word,
                        Word receive_type_word, Word comm_word, Word request_word) {
  CallTimer timer(job, CallTimer::Kind::post);
  const Offload offload = offload_on(job, form, argument<MPI_Comm>(comm_word), Collective::iallgatherv, std::nullopt);
  CommState* comm = offload.comm;
  if (comm == nullptr) return false;
  const auto* send_buffer = argument<const void*>(send_buffer_word);
  const auto send_count = argument<Count>(send_count_word);
  const auto send_type = argument<MPI_Datatype>(send_type_word);
  auto* receive_buffer = argument<void*>(receive_buffer_word);
  const auto* receive_counts = argument<const Count*>(receive_counts_word);
  const auto* receive_displacements = argument<const Displacement*>(receive_displacements_word);
  const auto receive_type = argument<MPI_Datatype>(receive_type_word);
  auto* request = argument<MPI_Request*>(request_word);
  const bool in_place = send_buffer == MPI_IN_PLACE;
  const std::uint32_t peers = comm->size();
  if (request == nullptr ||
      !valid_sides(job, receive_buffer, receive_counts, receive_displacements, receive_type, peers) ||
      (!in_place && !valid_side(job, send_buffer, send_count, send_type))) {
    return decline(job, Collective::iallgatherv, comm);
  }
  const TypeShape receive_shape = shape_of(job, receive_type);
  const std::uint32_t me = comm->me().value();
  const auto own_count = static_cast<std::int64_t>(receive_counts[me]);
  // Where the own block comes to lie.
  const void* own =
      offset_address(receive_buffer, static_cast<std::int64_t>(receive_displacements[me]) * receive_shape.extent);
  if (!in_place && aliased(send_buffer, send_type, own, receive_type, send_count != 0 && own_count != 0)) {
    return decline(job, Collective::iallgatherv, comm);
  }
  Operation& operation = new_operation(Collective::iallgatherv, offload, in_place);
  operation.receive.set_irregular(receive_buffer, receive_counts, receive_displacements, receive_type, receive_shape,
                                  peers);
  if (in_place) {
    operation.send.set_shared(own, own_count, receive_type, receive_shape, peers);
  } else {
    operation.send.set_shared(send_buffer, send_count, send_type, shape_of(job, send_type), peers);
  }
  return offload_operation(job, timer, operation, request);
}

}  // namespace

OUTRIGGER_ENTRY(Iallgatherv,
                (Word send_buffer, Word send_count, Word send_type, Word receive_buffer, Word receive_counts,
                 Word receive_displacements, Word receive_type, Word comm, Word request)) {
  return offload_or_pass(Call::Iallgatherv, &offload_allgatherv<int, int>, __builtin_return_address(0), send_buffer,
                         send_count, send_type, receive_buffer, receive_counts, receive_displacements, receive_type,
                         comm, request);
}

OUTRIGGER_ENTRY(Allgatherv, (Word send_buffer, Word send_count, Word send_type, Word receive_buffer,
                             Word receive_counts, Word receive_displacements, Word receive_type, Word comm)) {
  return complete_or_pass(Call::Allgatherv, &offload_allgatherv<int, int>, __builtin_return_address(0), send_buffer,
                          send_count, send_type, receive_buffer, receive_counts, receive_displacements, receive_type,
                          comm);
}

#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Iallgatherv_c,
                (Word send_buffer, Word send_count, Word send_type, Word receive_buffer, Word receive_counts,
                 Word receive_displacements, Word receive_type, Word comm, Word request)) {
  return offload_or_pass(Call::Iallgatherv_c, &offload_allgatherv<MPI_Count, MPI_Aint>, __builtin_return_address(0),
                         send_buffer, send_count, send_type, receive_buffer, receive_counts, receive_displacements,
                         receive_type, comm, request);
}

OUTRIGGER_ENTRY(Allgatherv_c, (Word send_buffer, Word send_count, Word send_type, Word receive_buffer,
                               Word receive_counts, Word receive_displacements, Word receive_type, Word comm)) {
  return complete_or_pass(Call::Allgatherv_c, &offload_allgatherv<MPI_Count, MPI_Aint>, __builtin_return_address(0),
                          send_buffer, send_count, send_type, receive_buffer, receive_counts, receive_displacements,
                          receive_type, comm);
}
#endif

}  // namespace outrigger::mpi
