// Limits of processes, cores and regions per node, for messages and shared memory.
#pragma once

#include <cstdint>

namespace outrigger {

inline constexpr std::uint32_t kMaxServices = 64;          // service processes per node
inline constexpr std::uint32_t kRanksPerService = 8;       // default
inline constexpr std::uint32_t kMaxLocalRanks = 1024;      // ranks per node
inline constexpr std::uint32_t kMaxCpus = 1024;            // bits of an affinity mask that are used
inline constexpr std::uint32_t kMaxRegionsPerRank = 4096;  // at the limit nothing more is staged

}  // namespace outrigger
