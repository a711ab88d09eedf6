// How many processes, cores and regions of a node there are room for, in messages and in shared memory alike.
#pragma once

#include <cstdint>

namespace outrigger {

inline constexpr std::uint32_t kMaxServices = 64;          // service processes per node
inline constexpr std::uint32_t kRanksPerService = 8;       // unless the user says how many
inline constexpr std::uint32_t kMaxLocalRanks = 1024;      // ranks per node
inline constexpr std::uint32_t kMaxCpus = 1024;            // bits of an affinity mask that we look at
inline constexpr std::uint32_t kMaxRegionsPerRank = 4096;  // at the limit nothing more is staged

}  // namespace outrigger
