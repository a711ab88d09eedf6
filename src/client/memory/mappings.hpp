// The process's mappings, as the kernel lists them.
#pragma once

#include <cstdint>

namespace outrigger::client {

// True if [begin, end) is in one mapping of this process, or the kernel does not tell. Any thread; does not use the
// program's allocator. Takes as long as reading /proc/self/maps.
[[nodiscard]] bool in_one_mapping(std::uint64_t begin, std::uint64_t end);

}  // namespace outrigger::client
