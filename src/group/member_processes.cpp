#include "group/member_processes.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>

#include "base/file_text.hpp"

namespace outrigger::group {
namespace {

using Shared = std::shared_ptr<const UniqueFd>;

struct Opened {
  std::mutex lock;
  std::map<pid_t, std::weak_ptr<const UniqueFd>> descriptors;
};

// Never destroyed: a group may end while the process does.
Opened& opened() {
  static auto* const one = new Opened;
  return *one;
}

int open_process(pid_t pid) {
#if defined(SYS_pidfd_open)
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
#else
  errno = ENOSYS;
  return -1;
#endif
}

bool has_ended_by(const UniqueFd& descriptor) {
  pollfd ends{.fd = descriptor.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ends, 1, 0) == 1;
}

// The first thread of a process may end before the others: then it looks like a zombie, but has several threads.
bool is_zombie(pid_t pid) {
  constexpr int kThreads = 17;  // fields after the state
  const std::string text = text_of_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || text.compare(name_end, 3, ") Z") != 0) return false;
  std::istringstream fields(text.substr(name_end + 3));
  long value = 0;
  for (int field = 0; field < kThreads; ++field) fields >> value;
  return !fields || value <= 1;
}

// nullptr: this process can open no more files.
Shared descriptor_of(pid_t pid) {
  Opened& all = opened();
  const std::scoped_lock held(all.lock);
  std::erase_if(all.descriptors, [](const auto& one) { return one.second.expired(); });
  std::weak_ptr<const UniqueFd>& known = all.descriptors[pid];
  // Another process may have the number of one that has ended.
  if (Shared found = known.lock(); found != nullptr && !has_ended_by(*found)) return found;
  UniqueFd made(open_process(pid));
  if (!made.valid() && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) return nullptr;
  auto shared = std::make_shared<const UniqueFd>(std::move(made));
  if (shared->valid()) known = shared;
  return shared;
}

}  // namespace

Result<MemberProcesses> MemberProcesses::open(std::vector<pid_t> pids) {
  MemberProcesses made;
  for (const pid_t pid : pids) {
    made.descriptors_.push_back(descriptor_of(pid));
    if (made.descriptors_.back() != nullptr) continue;
    return Error{"cannot watch process " + std::to_string(pid) + ": " + std::strerror(errno) +
                 "; `ulimit -n` limits open files"};
  }
  made.pids_ = std::move(pids);
  return made;
}

bool MemberProcesses::has_ended(std::uint32_t member) const {
  const UniqueFd& descriptor = *descriptors_[member];
  if (descriptor.valid()) return has_ended_by(descriptor);
  return (::kill(pids_[member], 0) != 0 && errno == ESRCH) || is_zombie(pids_[member]);
}

}  // namespace outrigger::group
