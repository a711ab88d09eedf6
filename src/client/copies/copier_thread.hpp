// The first steps of every copier's thread.
#pragma once

#include <cstddef>
#include <span>

namespace outrigger::client {

inline constexpr std::size_t kCopierStackBytes = 256U << 10;  // of address space; only a few pages are touched

// The calling thread gets its name, an empty table of descriptors and these cores. False: it must not copy, as it
// cannot run there or access other processes.
[[nodiscard]] bool settle_as_copier(std::span<const int> cpus);

}  // namespace outrigger::client
