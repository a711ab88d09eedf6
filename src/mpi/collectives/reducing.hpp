// What the preload files of reductions have in common.
#pragma once

#include <optional>

#include "mpi/collectives/entry_points.hpp"
#include "mpi/types/reducible.hpp"

namespace outrigger::mpi {

// What a call does to its elements.
struct Reducing {
  std::optional<Reduction> reduction;        // nothing: service processes cannot
  NativeReason native = NativeReason::none;  // why not; the same on all ranks
  TypeShape shape;                           // of the elements
};
// The type is valid.
[[nodiscard]] Reducing reducing_of(const Job& job, MPI_Op operation, MPI_Datatype type);

// Is the vector that is reduced in the buffer that the result goes to? So it is where both are one buffer, too: no MPI
// allows it, but not all of them look.
[[nodiscard]] inline bool reduces_in_place(const void* send_buffer, const void* receive_buffer, bool has_data) {
  return send_buffer == MPI_IN_PLACE || (has_data && send_buffer == receive_buffer);
}

// Buffers of `count` elements on both sides, on each rank alike.
template <class Count>
[[nodiscard]] bool valid_vectors(const Job& job, const void* send_buffer, const void* receive_buffer, Count count,
                                 MPI_Datatype type) {
  if (!valid_side(job, receive_buffer, count, type)) return false;
  if (send_buffer == MPI_IN_PLACE) return true;
  return valid_side(job, send_buffer, count, type) && !aliased(send_buffer, type, receive_buffer, type, count != 0);
}

// What is reduced are `sent` elements at `from`, and `received` of the result, from element `first` on, go to `to`. In
// place they are sent from a copy, which is made when the operation is posted.
struct ReducedSides {
  const void* from;
  std::int64_t sent;
  void* to;
  std::int64_t received;
  bool in_place;
  std::int64_t first = 0;
  std::optional<std::uint32_t> root = std::nullopt;
};
[[nodiscard]] Operation& new_reduction(Collective collective, const Offload& offload, const Reducing& reducing,
                                       MPI_Datatype type, const ReducedSides& sides);

// What a call says beside its buffers. `count`: by which calls are told apart, the same on all ranks.
template <class Count>
struct ReductionCall {
  Collective collective;
  Form form;
  Count count;
  MPI_Datatype type;
  MPI_Op operation;
  MPI_Comm comm;
};

// What the calls have in common. `is_valid()`: the native MPI does not certainly reject it. `sides_on(comm)`: once it
// is to be offloaded, nothing where the native MPI certainly rejects it.
template <class Count, class IsValid, class SidesOn>
bool offload_reduction(Job& job, const ReductionCall<Count>& call, MPI_Request* request, const IsValid& is_valid,
                       const SidesOn& sides_on) {
  const steer::CollectiveForm form = form_of(call.collective, call.form);
  const std::uint64_t key = handle_key(call.operation);
  if (call.form != Form::persistent && passes(job, form, call.comm, call.count, call.type, key)) return false;
  CallTimer timer(CallTimer::Kind::post);
  if (request == nullptr || !is_valid()) return decline();
  const Reducing reducing = reducing_of(job, call.operation, call.type);
  const Offload offload =
      offload_on(job, call.form, call.comm, call.collective, bytes_in(call.count, reducing.shape), reducing.native);
  if (offload.comm == nullptr) return pass_on(offload, form, call.count, call.type, reducing.shape, key);
  const std::optional<ReducedSides> sides = sides_on(*offload.comm);
  if (!sides) return decline();
  Operation& reduces = new_reduction(call.collective, offload, reducing, call.type, *sides);
  return offload_operation(job, timer, offload, reduces, request);
}

}  // namespace outrigger::mpi
