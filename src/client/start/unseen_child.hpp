// Work in a child process that the program cannot see.
#pragma once

#include "base/result.hpp"

namespace outrigger::client {

// Runs `work(argument)` in a child, to its end. The child shares this process's memory, and the calling thread is
// suspended, as with vfork(). The child has all signals blocked. It may start processes and wait for them, and must not
// allocate.
//
// The program's wait() and waitpid() do not find the child, and there is no SIGCHLD at its end. They do not find
// processes that it leaves behind either: a program that adopts orphans (PR_SET_CHILD_SUBREAPER) adopts none during the
// call.
[[nodiscard]] Status run_in_unseen_child(void (*work)(void*), void* argument);

}  // namespace outrigger::client
