// Copies use system calls that a program's own filter may forbid: a forbidden call may end the program.
#pragma once

#include <sys/prctl.h>

namespace outrigger::client {

class CallFilter {
 public:
  // The calling thread has got its first system call filter since the thread that constructed this had none.
  [[nodiscard]] bool is_new() const { return of_this_thread() != at_start_; }

 private:
  static int of_this_thread() { return ::prctl(PR_GET_SECCOMP); }

  int at_start_ = of_this_thread();
};

}  // namespace outrigger::client
