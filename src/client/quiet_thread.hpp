// Threads of the library in the program's process.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace outrigger::client {

// Handles no signals: these are the program's. Those of a fault come to whoever has it, and the program's handler may
// mend it. `stack_bytes`: of address space; 0: as usual. False: there is none.
[[nodiscard]] bool start_quiet_thread(pthread_t& thread, std::size_t stack_bytes, void* (*main)(void*), void* argument);

}  // namespace outrigger::client
