#include "base/unread_output.hpp"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <thread>

namespace outrigger {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{1};

bool anything_unread(int fd) {
  struct stat what {};
  if (::fstat(fd, &what) != 0) return false;
  if (!S_ISFIFO(what.st_mode) && !S_ISSOCK(what.st_mode)) return false;
  int bytes = 0;
  // FIONREAD also works at a pipe's writing end: it counts the pipe's bytes.
  return ::ioctl(fd, S_ISFIFO(what.st_mode) ? FIONREAD : SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

}  // namespace

void wait_until_read(int fd, std::chrono::milliseconds at_most) {
  const auto deadline = std::chrono::steady_clock::now() + at_most;
  while (anything_unread(fd) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace outrigger
