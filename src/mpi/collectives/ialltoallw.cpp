// MPI_Alltoallw and MPI_Ialltoallw: a type and a displacement in bytes for every peer.
#include "mpi/collectives/collective.hpp"

namespace outrigger::mpi {
namespace {

template <class Count, class Displacement>
bool offload_alltoallw(Job& job, Form form, Word send_buffer_word, Word send_counts_word, Word send_displacements_word,
                       Word send_types_word, Word receive_buffer_word, Word receive_counts_word,
                       Word receive_displacements_word, Word receive_types_word, Word comm_word, Word request_word) {
  CallTimer timer(job, CallTimer::Kind::post);
  const Offload offload = offload_on(job, form, argument<MPI_Comm>(comm_word), Collective::ialltoallw, std::nullopt);
  CommState* comm = offload.comm;
  if (comm == nullptr) return false;
  const auto* send_buffer = argument<const void*>(send_buffer_word);
  const auto* send_counts = argument<const Count*>(send_counts_word);
  const auto* send_displacements = argument<const Displacement*>(send_displacements_word);
  const auto* send_types = argument<const MPI_Datatype*>(send_types_word);
  auto* receive_buffer = argument<void*>(receive_buffer_word);
  const auto* receive_counts = argument<const Count*>(receive_counts_word);
  const auto* receive_displacements = argument<const Displacement*>(receive_displacements_word);
  const auto* receive_types = argument<const MPI_Datatype*>(receive_types_word);
  auto* request = argument<MPI_Request*>(request_word);
  const bool in_place = send_buffer == MPI_IN_PLACE;
  const std::uint32_t peers = comm->size();
  if (request == nullptr ||
      !valid_typed_sides(job, receive_buffer, receive_counts, receive_displacements, receive_types, peers) ||
      (!in_place && !valid_typed_sides(job, send_buffer, send_counts, send_displacements, send_types, peers)) ||
      (!in_place && aliased_w(send_buffer, send_types, receive_buffer, receive_types, send_counts == receive_counts))) {
    return decline(job, Collective::ialltoallw, comm);
  }
  Operation& operation = new_operation(Collective::ialltoallw, offload, in_place);
  operation.receive.set_typed(job, receive_buffer, receive_counts, receive_displacements, receive_types, peers);
  if (in_place) {
    operation.source_overwritten = true;  // blocks are received where others are sent from
    operation.send.set_typed(job, receive_buffer, receive_counts, receive_displacements, receive_types, peers);
  } else {
    operation.send.set_typed(job, send_buffer, send_counts, send_displacements, send_types, peers);
  }
  return offload_operation(job, timer, operation, request);
}

}  // namespace

OUTRIGGER_ENTRY(Ialltoallw,
                (Word send_buffer, Word send_counts, Word send_displacements, Word send_types, Word receive_buffer,
                 Word receive_counts, Word receive_displacements, Word receive_types, Word comm, Word request)) {
  return offload_or_pass(Call::Ialltoallw, &offload_alltoallw<int, int>, __builtin_return_address(0), send_buffer,
                         send_counts, send_displacements, send_types, receive_buffer, receive_counts,
                         receive_displacements, receive_types, comm, request);
}

OUTRIGGER_ENTRY(Alltoallw,
                (Word send_buffer, Word send_counts, Word send_displacements, Word send_types, Word receive_buffer,
                 Word receive_counts, Word receive_displacements, Word receive_types, Word comm)) {
  return complete_or_pass(Call::Alltoallw, &offload_alltoallw<int, int>, __builtin_return_address(0), send_buffer,
                          send_counts, send_displacements, send_types, receive_buffer, receive_counts,
                          receive_displacements, receive_types, comm);
}

#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Ialltoallw_c,
                (Word send_buffer, Word send_counts, Word send_displacements, Word send_types, Word receive_buffer,
                 Word receive_counts, Word receive_displacements, Word receive_types, Word comm, Word request)) {
  return offload_or_pass(Call::Ialltoallw_c, &offload_alltoallw<MPI_Count, MPI_Aint>, __builtin_return_address(0),
                         send_buffer, send_counts, send_displacements, send_types, receive_buffer, receive_counts,
                         receive_displacements, receive_types, comm, request);
}

OUTRIGGER_ENTRY(Alltoallw_c,
                (Word send_buffer, Word send_counts, Word send_displacements, Word send_types, Word receive_buffer,
                 Word receive_counts, Word receive_displacements, Word receive_types, Word comm)) {
  return complete_or_pass(Call::Alltoallw_c, &offload_alltoallw<MPI_Count, MPI_Aint>, __builtin_return_address(0),
                          send_buffer, send_counts, send_displacements, send_types, receive_buffer, receive_counts,
                          receive_displacements, receive_types, comm);
}
#endif

}  // namespace outrigger::mpi
