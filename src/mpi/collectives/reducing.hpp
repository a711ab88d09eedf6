// What the preload files of reductions have in common.
#pragma once

#include <optional>

#include "mpi/collectives/collective.hpp"
#include "mpi/types/reduction.hpp"

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

// An operation of this collective that reduces `sent` elements at `from` and receives `received` at `to`. In place
// they are sent from a copy, which is made when the operation is posted.
struct ReducedSides {
  const void* from;
  std::int64_t sent;
  void* to;
  std::int64_t received;
  bool in_place;
};
[[nodiscard]] Operation& new_reduction(Collective collective, const Offload& offload, const Reducing& reducing,
                                       MPI_Datatype type, const ReducedSides& sides);

}  // namespace outrigger::mpi
