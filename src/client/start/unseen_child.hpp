// Work in a child process that the program cannot see.
#pragma once

#include "base/result.hpp"

namespace outrigger::client {

// Runs `work(argument)` in a child, to its end. The child shares this process's memory, and the calling thread stands
// still, as with vfork(). The child has all signals blocked. It may start processes and wait for them, and must not
// allocate.
//
// The program's wait() and waitpid() do not find the child, and no SIGCHLD tells of its end. Nor do they find processes
// that it leaves behind: where the program adopts orphans (PR_SET_CHILD_SUBREAPER), it adopts none during the call.
[[nodiscard]] Status run_in_unseen_child(void (*work)(void*), void* argument);

}  // namespace outrigger::client
