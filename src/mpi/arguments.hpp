// Which arguments the native MPI certainly rejects: such calls go to it, for its error. In doubt an argument is valid:
// one rank must not go native where others offload.
#pragma once

#include <cstdint>

#include "mpi/abi.hpp"
#include "mpi/datatype.hpp"

namespace outrigger::mpi {

struct Job;

// Neither null nor uncommitted.
[[nodiscard]] bool valid_type(const Job& job, MPI_Datatype type);

// A null buffer can only be right for no data, or with a type whose displacements are addresses.
[[nodiscard]] bool valid_buffer(const Job& job, const void* buffer, MPI_Datatype type, bool has_data);

template <class Count>
[[nodiscard]] bool valid_side(const Job& job, const void* buffer, Count count, MPI_Datatype type) {
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

// Both sides are the same, and the loaded MPI looks for that. The same buffer alone proves nothing: other counts,
// displacements or types may choose other parts of it. `same_counts`: equal and not zero, or for v-forms one array.
[[nodiscard]] inline bool aliased(const void* send_buffer, MPI_Datatype send_type, const void* receive_buffer,
                                  MPI_Datatype receive_type, bool same_counts) {
#if defined(OUTRIGGER_ABI_MPICH)
  return send_buffer == receive_buffer && send_buffer != MPI_BOTTOM && send_type == receive_type && same_counts;
#else
  static_cast<void>(send_buffer), static_cast<void>(send_type), static_cast<void>(receive_buffer);
  static_cast<void>(receive_type), static_cast<void>(same_counts);
  return false;
#endif
}

}  // namespace outrigger::mpi
