#include "group/member_processes.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace outrigger::group {

MemberProcesses::MemberProcesses(std::vector<pid_t> pids) : pids_(std::move(pids)) {
  for (const pid_t pid : pids_) {
#if defined(SYS_pidfd_open)
    descriptors_.emplace_back(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
#else
    descriptors_.emplace_back();
#endif
  }
}

bool MemberProcesses::has_ended(std::uint32_t member) const {
  const UniqueFd& descriptor = descriptors_[member];
  if (!descriptor.valid()) return ::kill(pids_[member], 0) != 0 && errno == ESRCH;
  pollfd ends{.fd = descriptor.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ends, 1, 0) == 1;
}

}  // namespace outrigger::group
