// Whom a rank sends to, or receives from, in collectives of neighbors: as its calls' arguments list them, and as
// service processes are told of them. Plain data, constant once made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace outrigger::mpi {

struct NeighborSide {
  std::uint32_t listed = 0;           // blocks that the arguments name, those of MPI_PROC_NULL included
  std::vector<std::uint32_t> places;  // in the arguments: by neighbor, and those of one as they follow each other
  std::vector<std::uint32_t> ranks;   // the neighbors: in order, and each once
  std::vector<std::uint32_t> first;   // of ranks[i] the places begin at first[i], and end at first[i + 1]

  [[nodiscard]] bool repeats() const { return places.size() != ranks.size(); }
  // Of places[i].
  [[nodiscard]] std::uint32_t rank_of(std::uint32_t i) const {
    const auto after = std::upper_bound(first.begin(), first.end(), i);
    return ranks[static_cast<std::size_t>(after - first.begin()) - 1];
  }
};

}  // namespace outrigger::mpi
