// Copies use system calls that a program's own filter may forbid: a forbidden call may end the program.
#pragma once

#include <sys/prctl.h>

namespace outrigger::client {

// The kind of the calling thread's system call filter. It changes when the program installs its first one.
inline int call_filter_of_this_thread() {
  return ::prctl(PR_GET_SECCOMP);
}

}  // namespace outrigger::client
