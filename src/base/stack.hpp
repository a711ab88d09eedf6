// Objects on the stack of a thread. longjmp() destroys none: one that is not above what lives has been left by it.
#pragma once

#include <cstdint>

namespace outrigger {

// True: `outer` is in a caller of the function that `inner` belongs to. `outer` may be nullptr.
[[nodiscard]] inline bool is_above(const void* outer, const void* inner) {
  return reinterpret_cast<std::uintptr_t>(outer) > reinterpret_cast<std::uintptr_t>(inner);
}

}  // namespace outrigger
