// Random lateness of ranks.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace skew {

// Lateness of each rank in one round, in milliseconds; 0: in time. About a quarter of the ranks is late, at least one
// and never all; lateness is uniform over (0, most]. The same on every rank and machine for the same engine state.
inline std::vector<double> draw_lateness(std::mt19937_64& random, int ranks, double most_ms) {
  const auto count = static_cast<std::uint64_t>(ranks);
  std::vector<double> late(count, 0.0);
  const std::uint64_t late_ranks = count < 8 ? 1 : count / 4;
  for (std::uint64_t made = 0; made < late_ranks;) {
    double& rank = late[random() % count];
    if (rank > 0) continue;
    rank = most_ms * (static_cast<double>(random() >> 11U) + 1) * 0x1p-53;
    ++made;
  }
  return late;
}

}  // namespace skew
