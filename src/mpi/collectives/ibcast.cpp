// MPI_Bcast and MPI_Ibcast.
#include "mpi/collectives/collective.hpp"

namespace outrigger::mpi {
namespace {

template <class Count>
bool offload_bcast(Job& job, Form form, Word buffer_word, Word count_word, Word type_word, Word root_word,
                   Word comm_word, Word request_word) {
  CallTimer timer(job, CallTimer::Kind::post);
  auto* buffer = argument<void*>(buffer_word);
  const auto count = argument<Count>(count_word);
  const auto type = argument<MPI_Datatype>(type_word);
  const auto root = argument<int>(root_word);
  auto* request = argument<MPI_Request*>(request_word);
  if (request == nullptr || !valid_side(job, buffer, count, type)) return decline(job, Collective::ibcast, nullptr);
  const TypeShape shape = shape_of(job, type);
  const std::uint64_t block_bytes = bytes_in(count, shape);
  const Offload offload = offload_on(job, form, argument<MPI_Comm>(comm_word), Collective::ibcast, block_bytes);
  CommState* comm = offload.comm;
  if (comm == nullptr) return false;
  if (root < 0 || static_cast<std::uint32_t>(root) >= comm->size()) return decline(job, Collective::ibcast, comm);
  Operation& operation = new_operation(Collective::ibcast, offload, false);
  operation.root = static_cast<std::uint32_t>(root);
  const bool sends = *operation.root == comm->me().value();
  operation.send.set_shared(buffer, sends ? count : 0, type, shape, comm->size());
  operation.receive.set_shared(buffer, sends ? 0 : count, type, shape, comm->size());
  return offload_operation(job, timer, operation, request);
}

}  // namespace

OUTRIGGER_ENTRY(Ibcast, (Word buffer, Word count, Word type, Word root, Word comm, Word request)) {
  return offload_or_pass(Call::Ibcast, &offload_bcast<int>, __builtin_return_address(0), buffer, count, type, root,
                         comm, request);
}

OUTRIGGER_ENTRY(Bcast, (Word buffer, Word count, Word type, Word root, Word comm)) {
  return complete_or_pass(Call::Bcast, &offload_bcast<int>, __builtin_return_address(0), buffer, count, type, root,
                          comm);
}

#if OUTRIGGER_MPI4
OUTRIGGER_ENTRY(Ibcast_c, (Word buffer, Word count, Word type, Word root, Word comm, Word request)) {
  return offload_or_pass(Call::Ibcast_c, &offload_bcast<MPI_Count>, __builtin_return_address(0), buffer, count, type,
                         root, comm, request);
}

OUTRIGGER_ENTRY(Bcast_c, (Word buffer, Word count, Word type, Word root, Word comm)) {
  return complete_or_pass(Call::Bcast_c, &offload_bcast<MPI_Count>, __builtin_return_address(0), buffer, count, type,
                          root, comm);
}
#endif

}  // namespace outrigger::mpi
