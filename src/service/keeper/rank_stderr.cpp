#include "service/keeper/rank_stderr.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/last_words.hpp"
#include "base/unique_fd.hpp"

namespace outrigger::service {
namespace {

UniqueFd open_stderr(pid_t pid, int pidfd) {
  UniqueFd fd;
  if (pidfd >= 0) fd.reset(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd, STDERR_FILENO, 0)));
  if (fd.valid() || (pidfd >= 0 && errno == ESRCH)) return fd;  // gone: its pid may be another's by now
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/2";
  fd.reset(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  return fd;
}

}  // namespace

bool print_on_stderr_of(pid_t pid, int pidfd, const std::string& line) {
  const UniqueFd fd = open_stderr(pid, pidfd);
  if (!fd.valid()) return false;
  // The open file may be shared with the program, so its flags are left alone; short lines fit once it is writable.
  constexpr int kPatienceMs = 200;
  pollfd ready{fd.get(), POLLOUT, 0};
  if (::poll(&ready, 1, kPatienceMs) <= 0) return false;
  const std::string text = line + "\n";
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return false;
  // The job ends on account of it, and its launcher may throw away what it has not read by then.
  constexpr std::chrono::milliseconds kForTheLauncherToRead{500};
  wait_until_read(fd.get(), kForTheLauncherToRead);
  return true;
}

}  // namespace outrigger::service
