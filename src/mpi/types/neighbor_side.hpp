// The ranks that a rank sends to, or receives from, in neighbor collectives: in the order of its calls' arguments, and
// in the order for service processes. Plain data, constant once made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace outrigger::mpi {

struct NeighborSide {
  std::uint32_t listed = 0;           // blocks in the arguments, with those of MPI_PROC_NULL
  std::vector<std::uint32_t> places;  // in the arguments: by neighbor, then by position
  std::vector<std::uint32_t> ranks;   // the neighbors in ascending order, without duplicates
  std::vector<std::uint32_t> first;   // ranks[i] has places first[i] to first[i + 1]

  [[nodiscard]] bool repeats() const { return places.size() != ranks.size(); }
  // The rank for places[i].
  [[nodiscard]] std::uint32_t rank_of(std::uint32_t i) const {
    const auto after = std::upper_bound(first.begin(), first.end(), i);
    return ranks[static_cast<std::size_t>(after - first.begin()) - 1];
  }
};

}  // namespace outrigger::mpi
