// The process's mappings, as the kernel lists them.
#pragma once

#include <cstdint>

namespace outrigger::client {

// Whether [begin, end) lies in one mapping of this process. True where the kernel does not tell.
// Any thread; takes no memory from the program's allocator. As long as reading /proc/self/maps takes.
[[nodiscard]] bool in_one_mapping(std::uint64_t begin, std::uint64_t end);

}  // namespace outrigger::client
