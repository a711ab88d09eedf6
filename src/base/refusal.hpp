// Detects system calls that are forbidden as such, for example by a container's seccomp profile.
#pragma once

#include <cerrno>

namespace outrigger {

// `error`: an error number.
[[nodiscard]] inline bool is_refusal(int error) {
  return error == EPERM || error == ENOSYS || error == EACCES;
}

}  // namespace outrigger
