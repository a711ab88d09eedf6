#pragma once

#include <cstdint>

namespace outrigger {

// Bytes that the machine and the control groups of this process leave. A snapshot: other processes allocate, too.
[[nodiscard]] std::uint64_t available_memory_bytes();

}  // namespace outrigger
