// The system calls that service processes and the keeper cannot do without. A container's seccomp profile may refuse
// any of them; they inherit it, and would only be able to end.
#pragma once

#include "base/result.hpp"

namespace outrigger::client {

// Tries each, which takes microseconds and leaves nothing. The error names what is refused.
[[nodiscard]] Status check_needed_calls();

}  // namespace outrigger::client
