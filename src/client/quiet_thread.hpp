// Threads of the library in the program's process.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace outrigger::client {

// The thread blocks all signals, which are for the program. A fault's signal is still delivered to the thread that
// causes it, and the program's handler may repair the cause. `stack_bytes`: of address space; 0: the default. False if
// no thread can be started.
[[nodiscard]] bool start_quiet_thread(pthread_t& thread, std::size_t stack_bytes, void* (*main)(void*), void* argument);

}  // namespace outrigger::client
