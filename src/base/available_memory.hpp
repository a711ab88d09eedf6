// How much memory this process can still have.
#pragma once

#include <cstdint>

namespace outrigger {

// What the machine and the control groups of this process leave, in bytes. A look at one
// moment: others allocate, too.
[[nodiscard]] std::uint64_t available_memory_bytes();

}  // namespace outrigger
