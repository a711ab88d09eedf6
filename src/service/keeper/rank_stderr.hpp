// Printing on another process's standard error, for messages that must reach people although the process itself is
// waiting or computing.
#pragma once

#include <sys/types.h>

#include <string>

namespace outrigger::service {

// One line, best effort, never blocks for long. False: its standard error could not be had.
[[nodiscard]] bool print_on_stderr_of(pid_t pid, int pidfd, const std::string& line);

}  // namespace outrigger::service
