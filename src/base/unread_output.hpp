// Waits for the delivery of a process's last output. Launchers read their ranks' output through pipes, and some
// (MPICH's) drop unread output when the job ends.
#pragma once

#include <chrono>

namespace outrigger {

// Waits until all bytes written to a pipe or socket have been read, at most `at_most`. Returns at once for files and
// terminals. Any thread.
void wait_until_read(int fd, std::chrono::milliseconds at_most);

}  // namespace outrigger
