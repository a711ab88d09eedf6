// Finds objects on a thread's stack that longjmp() has left: it destroys none.
#pragma once

#include <cstdint>

namespace outrigger {

// True if `outer` is in a caller of the function that `inner` belongs to. `outer` may be nullptr.
[[nodiscard]] inline bool is_above(const void* outer, const void* inner) {
  return reinterpret_cast<std::uintptr_t>(outer) > reinterpret_cast<std::uintptr_t>(inner);
}

}  // namespace outrigger
