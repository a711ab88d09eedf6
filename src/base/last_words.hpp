// Text that is written before a process ends, or a launcher is told to end the job: launchers read their ranks' output
// through pipes, and some (MPICH's) throw away what they have not read by then.
#pragma once

#include <chrono>

namespace outrigger {

// Until whoever reads the other end of a pipe or socket has read all that was written, `at_most` so long. Returns at
// once for files, terminals and whatever else has no reader to wait for. Any thread.
void wait_until_read(int fd, std::chrono::milliseconds at_most);

}  // namespace outrigger
