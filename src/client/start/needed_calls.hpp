// System calls that service processes and the keeper require. A container's seccomp profile may refuse them; those
// processes inherit it and could only end.
#pragma once

#include "base/result.hpp"

namespace outrigger::client {

// Tries each, which takes microseconds and leaves nothing. The error names the refused call.
[[nodiscard]] Status check_needed_calls();

}  // namespace outrigger::client
