// Random bytes of the system's, fit for secrets.
//
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <span>

namespace outrigger {

// From the device where the call is refused, as by a container's profile. False, with errno: there are none.
[[nodiscard]] bool fill_random(std::span<std::byte> bytes);

}  // namespace outrigger
