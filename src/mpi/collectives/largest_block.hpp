// The largest block of a v-form, which decides whether its blocks are small.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mpi/collectives/arguments.hpp"

namespace outrigger::mpi {

struct Job;

// The most bytes that this rank receives from one peer, or 0 where the arguments are of no use.
template <class Count>
[[nodiscard]] std::uint64_t largest_block(const Job& job, const Count* counts, MPI_Datatype type, std::uint32_t peers) {
  if (counts == nullptr || !valid_type(job, type)) return 0;
  const Count most = *std::max_element(counts, counts + peers);
  return most <= 0 ? 0 : bytes_in(most, shape_of(job, type));
}
template <class Count>
[[nodiscard]] std::uint64_t largest_block(const Job& job, const Count* counts, const MPI_Datatype* types,
                                          std::uint32_t peers) {
  std::uint64_t most = 0;
  for (std::uint32_t i = 0; counts != nullptr && types != nullptr && i < peers; ++i) {
    if (counts[i] > 0 && valid_type(job, types[i])) most = std::max(most, bytes_in(counts[i], shape_of(job, types[i])));
  }
  return most;
}

}  // namespace outrigger::mpi
