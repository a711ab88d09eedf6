// Common parts of the reductions' preload files.
#pragma once

#include <optional>

#include "mpi/collectives/entry_points.hpp"
#include "mpi/types/reducible.hpp"

namespace outrigger::mpi {

// A call's operation on its elements.
struct Reducing {
  std::optional<Reduction> reduction;        // nullopt if service processes cannot do it
  NativeReason native = NativeReason::none;  // the reason; the same on all ranks
  TypeShape shape;                           // of the elements
};
// The type is valid.
[[nodiscard]] Reducing reducing_of(const Job& job, MPI_Op operation, MPI_Datatype type);

// True if the reduced vector is in the result's buffer. This includes two equal buffers: no MPI allows them, but not
// all MPIs check.
[[nodiscard]] inline bool reduces_in_place(const void* send_buffer, const void* receive_buffer, bool has_data) {
  return send_buffer == MPI_IN_PLACE || (has_data && send_buffer == receive_buffer);
}

// Buffers of `count` elements on both sides, the same on all ranks.
template <class Count>
[[nodiscard]] bool valid_vectors(const Job& job, const void* send_buffer, const void* receive_buffer, Count count,
                                 MPI_Datatype type) {
  if (!valid_side(job, receive_buffer, count, type)) return false;
  if (send_buffer == MPI_IN_PLACE) return true;
  return valid_side(job, send_buffer, count, type) && !aliased(send_buffer, type, receive_buffer, type, count != 0);
}

// A rank sends `sent` elements at `from`, and receives at `to` `received` elements of the result, from element `first`
// on. In place it sends a copy, which is made when the operation is posted.
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

// A call's arguments beside its buffers. `count` identifies the kind of call, and is the same on all ranks.
template <class Count>
struct ReductionCall {
  Collective collective;
  Form form;
  Count count;
  MPI_Datatype type;
  MPI_Op operation;
  MPI_Comm comm;
};

// Offloads a reduction. `is_valid()` is false if the native MPI certainly rejects the call. `sides_on(comm)` is called
// when the call is to be offloaded; it returns nullopt if the native MPI certainly rejects the call.
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
