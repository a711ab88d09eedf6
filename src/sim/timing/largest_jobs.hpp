// Limits of timed jobs; larger ones would only take memory and hours.
#pragma once

#include <cstdint>

namespace outrigger::sim::timing {

inline constexpr std::uint32_t kMostRanks = 1U << 13U;
inline constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30U;  // of a block

}  // namespace outrigger::sim::timing
