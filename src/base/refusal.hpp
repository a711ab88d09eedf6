// System calls that are refused as such, by a container's seccomp profile for instance: whatever they are asked.
#pragma once

#include <cerrno>

namespace outrigger {

// Of an error number.
[[nodiscard]] inline bool is_refusal(int error) {
  return error == EPERM || error == ENOSYS || error == EACCES;
}

}  // namespace outrigger
