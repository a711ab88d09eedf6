// Which arguments the native MPI certainly rejects: such calls go to it, for its error. In doubt an argument is valid:
// one rank must not go native where others offload.
#pragma once

#include <cstdint>

#include "mpi/native/abi.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/types/datatype.hpp"

namespace outrigger::mpi {

struct Job;

// Neither null nor uncommitted.
[[nodiscard, gnu::always_inline]] inline bool valid_type(const Job& job, MPI_Datatype type) {
  return type != constants().datatype_null &&
         (detail::predefined_shape(type) != nullptr || shape_of(job, type).committed);
}

// A null buffer can only be right for no data, or with a type whose displacements are addresses.
[[nodiscard, gnu::always_inline]] inline bool valid_buffer(const Job& job, const void* buffer, MPI_Datatype type,
                                                           bool has_data) {
  if (buffer == MPI_IN_PLACE) return false;
  if (buffer != nullptr || !has_data) return true;
  const TypeShape shape = shape_of(job, type);
  return !shape.predefined || shape.size == 0;
}

template <class Count>
[[nodiscard, gnu::always_inline]] inline bool valid_side(const Job& job, const void* buffer, Count count,
                                                         MPI_Datatype type) {
  return count >= 0 && valid_type(job, type) && valid_buffer(job, buffer, type, count > 0);
}

template <class Count, class Displacement>
[[nodiscard]] bool valid_sides(const Job& job, const void* buffer, const Count* counts,
                               const Displacement* displacements, MPI_Datatype type, std::uint32_t peers) {
  if (counts == nullptr || displacements == nullptr || !valid_type(job, type)) return false;
  bool has_data = false;
  for (std::uint32_t i = 0; i < peers; ++i) {
    if (counts[i] < 0) return false;
    has_data = has_data || (counts[i] > 0 && displacements[i] == 0);
  }
  return valid_buffer(job, buffer, type, has_data);
}

// As valid_sides, with a type for each peer (looked at where the count is not zero) and displacements in bytes.
template <class Count, class Displacement>
[[nodiscard]] bool valid_typed_sides(const Job& job, const void* buffer, const Count* counts,
                                     const Displacement* displacements, const MPI_Datatype* types,
                                     std::uint32_t peers) {
  if (counts == nullptr || displacements == nullptr || types == nullptr) return false;
  if (buffer == MPI_IN_PLACE) return false;
  for (std::uint32_t i = 0; i < peers; ++i) {
    if (counts[i] < 0) return false;
    if (counts[i] == 0) continue;
    if (!valid_type(job, types[i]) || !valid_buffer(job, buffer, types[i], displacements[i] == 0)) return false;
  }
  return true;
}

// The bytes of `count` elements.
template <class Count>
[[nodiscard]] std::uint64_t bytes_in(Count count, const TypeShape& shape) {
  return static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(shape.size);
}

// An address beside one that may be MPI_BOTTOM.
[[nodiscard]] inline const void* offset_address(const void* buffer, std::int64_t bytes) {
  return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(buffer) + static_cast<std::uintptr_t>(bytes));
}

// Both sides are the same, and the loaded MPI looks for that. The same buffer alone proves nothing: other counts,
// displacements or types may choose other parts of it. `same_counts`: equal and not zero, or for v-forms one array.
[[nodiscard]] inline bool aliased(const void* send_buffer, MPI_Datatype send_type, const void* receive_buffer,
                                  MPI_Datatype receive_type, bool same_counts) {
  return constants().rejects_aliases && send_buffer == receive_buffer && send_buffer != MPI_BOTTOM &&
         send_type == receive_type && same_counts;
}

// The same for a list of types on each side.
[[nodiscard]] inline bool aliased_w(const void* send_buffer, const MPI_Datatype* send_types, const void* receive_buffer,
                                    const MPI_Datatype* receive_types, bool same_counts) {
  return constants().rejects_aliases && send_buffer == receive_buffer && send_buffer != MPI_BOTTOM &&
         send_types == receive_types && same_counts;
}

}  // namespace outrigger::mpi
