// How a process that is not a child ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

namespace outrigger::service {

// Waits for the process's end and returns its status in waitpid() form. Returns nullopt
// if it has not ended in time, or if the status is lost. Before Linux 6.15 it is lost when the parent has waited.
// `pidfd` is of `pid`.
[[nodiscard]] std::optional<int> end_status_of(pid_t pid, int pidfd, std::chrono::milliseconds at_most);

}  // namespace outrigger::service
