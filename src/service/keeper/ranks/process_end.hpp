// How a process ended that is not a child.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

namespace outrigger::service {

// Its status as waitpid() gives it, once it has ended, which is waited for. Nothing: it has not ended in time, or the
// kernel does not tell (before Linux 6.15 only as long as the process's parent has not asked). `pidfd` is of `pid`.
[[nodiscard]] std::optional<int> end_status_of(pid_t pid, int pidfd, std::chrono::milliseconds at_most);

}  // namespace outrigger::service
