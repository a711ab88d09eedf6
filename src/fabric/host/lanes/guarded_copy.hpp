// Copying where one side is another process's memory, attached here: that process may give it back at any time, and a
// touch is then a fault in this process.
#pragma once

#include <cstddef>

namespace outrigger::fabric {

// memmove. False: a fault (SIGBUS, SIGSEGV), after which some of `to` may be overwritten. Faults of others go to the
// handlers that were there before the first call.
//
// Thread rule: any thread; handlers are installed once, by the first call.
[[nodiscard]] bool copy_guarded(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace outrigger::fabric
