// MPI_Alltoallv and MPI_Ialltoallv.
#include "mpi/collectives/collective.hpp"

namespace outrigger::mpi {
namespace {

template <class Count, class Displacement>
bool offload_alltoallv(Job& job, Form form, Word send_buffer_word, Word send_counts_word, Word send_displacements_word,
                       Word send_type_word, Word receive_buffer_word, Word receive_counts_word,
                       Word receive_displacements_word, Word receive_type_word, Word comm_word, Word request_word) {
  CallTimer timer(job, CallTimer::Kind::post);
  const Offload offload = offload_on(job, form, argument<MPI_Comm>(comm_word), Collective::ialltoallv, std::nullopt);
  CommState* comm = offload.comm;
  if (comm == nullptr) return false;
  const auto* send_buffer = argument<const void*>(send_buffer_word);
  const auto* send_counts = argument<const Count*>(send_counts_word);
  const auto* send_displacements = argument<const Displacement*>(send_displacements_word);
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
      (!in_place && !valid_sides(job, send_buffer, send_counts, send_displacements, send_type, peers)) ||
      (!in_place && aliased(send_buffer, send_type, receive_buffer, receive_type, send_counts == receive_counts))) {
    return decline(job, Collective::ialltoallv, comm);
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
  return offload_operation(job, timer, operation, request);
}

}  // namespace

OUTRIGGER_ENTRY(Ialltoallv,
                (Word send_buffer, Word send_counts, Word send_displacements, Word send_type, Word receive_buffer,
                 Word receive_counts, Word receive_displacements, Word receive_type, Word comm, Word request)) {
  return offload_or_pass(Call::Ialltoallv, &offload_alltoallv<int, int>, __builtin_return_address(0), send_buffer,
                         send_counts, send_displacements, send_type, receive_buffer, receive_counts,
                         receive_displacements, receive_type, comm, request);
}

OUTRIGGER_ENTRY(Alltoallv,
                (Word send_buffer, Word send_counts, Word send_displacements, Word send_type, Word receive_buffer,
                 Word receive_counts, Word receive_displacements, Word receive_type, Word comm)) {
  return complete_or_pass(Call::Alltoallv, &offload_alltoallv<int, int>, __builtin_return_address(0), send_buffer,
                          send_counts, send_displacements, send_type, receive_buffer, receive_counts,
                          receive_displacements, receive_type, comm);
}

#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Ialltoallv_c,
                (Word send_buffer, Word send_counts, Word send_displacements, Word send_type, Word receive_buffer,
                 Word receive_counts, Word receive_displacements, Word receive_type, Word comm, Word request)) {
  return offload_or_pass(Call::Ialltoallv_c, &offload_alltoallv<MPI_Count, MPI_Aint>, __builtin_return_address(0),
                         send_buffer, send_counts, send_displacements, send_type, receive_buffer, receive_counts,
                         receive_displacements, receive_type, comm, request);
}

OUTRIGGER_ENTRY(Alltoallv_c,
                (Word send_buffer, Word send_counts, Word send_displacements, Word send_type, Word receive_buffer,
                 Word receive_counts, Word receive_displacements, Word receive_type, Word comm)) {
  return complete_or_pass(Call::Alltoallv_c, &offload_alltoallv<MPI_Count, MPI_Aint>, __builtin_return_address(0),
                          send_buffer, send_counts, send_displacements, send_type, receive_buffer, receive_counts,
                          receive_displacements, receive_type, comm);
}
#endif

}  // namespace outrigger::mpi
