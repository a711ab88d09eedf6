// The system's random bytes, good for secrets.
//
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <span>

namespace outrigger {

// Reads the device if the system call is refused, for example in a container. False, with errno: none available.
[[nodiscard]] bool fill_random(std::span<std::byte> bytes);

}  // namespace outrigger
