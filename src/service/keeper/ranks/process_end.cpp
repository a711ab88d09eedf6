#include "service/keeper/ranks/process_end.hpp"

#include <poll.h>
#include <sys/ioctl.h>

#include <cstdint>
#include <sstream>
#include <string>

#include "base/file_text.hpp"

namespace outrigger::service {
namespace {

// Copied from Linux 6.15 (include/uapi/linux/pidfd.h) for older headers.
struct PidfdInfo {
  std::uint64_t mask = 0;
  std::uint64_t cgroup = 0;
  std::uint32_t ids[11] = {};
  std::int32_t exit_code = 0;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr std::uint64_t kInfoExit = 1U << 3;
constexpr unsigned long kGetInfo = _IOWR(0xFF, 11, PidfdInfo);

std::optional<int> status_by_pidfd(int pidfd) {
  PidfdInfo info;
  info.mask = kInfoExit;
  if (::ioctl(pidfd, kGetInfo, &info) != 0 || (info.mask & kInfoExit) == 0) return std::nullopt;
  return info.exit_code;
}

// Status of a process that its parent has not waited for yet.
std::optional<int> status_of_zombie(pid_t pid) {
  const std::string text = text_of_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state;
  if (!(fields >> state) || state != "Z") return std::nullopt;
  std::string last;
  while (fields >> last) {
  }
  return last.empty() ? std::nullopt : std::optional(std::stoi(last));
}

}  // namespace

std::optional<int> end_status_of(pid_t pid, int pidfd, std::chrono::milliseconds at_most) {
  if (pidfd < 0) return std::nullopt;
  pollfd ended{pidfd, POLLIN, 0};
  if (::poll(&ended, 1, static_cast<int>(at_most.count())) <= 0) return std::nullopt;
  if (const std::optional<int> status = status_by_pidfd(pidfd)) return status;
  if (const std::optional<int> status = status_of_zombie(pid)) return status;
  return status_by_pidfd(pidfd);  // the parent has waited for it in between
}

}  // namespace outrigger::service
