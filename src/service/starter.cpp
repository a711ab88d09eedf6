#include "service/starter.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "service/service.hpp"

namespace outrigger::service {
namespace {

struct SocketPair {
  UniqueFd ours;
  UniqueFd theirs;
};

Result<SocketPair> make_socket_pair() {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    return Error{std::string("cannot make a control socket: ") + std::strerror(errno)};
  }
  return SocketPair{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

std::string own_path() {
  std::array<char, 4096> path{};
  const ssize_t bytes = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string name = bytes > 0 ? std::string(path.data(), static_cast<std::size_t>(bytes)) : std::string();
  return ::access(name.c_str(), X_OK) == 0 ? name : "/proc/self/exe";
}

// In the child, between fork and exec: only calls that are safe there. Does not return.
[[noreturn]] void become_service(const char* path, int control, pid_t keeper) {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != keeper) ::_exit(127);  // the keeper has died before we asked to be told
  constexpr int kControlFd = 3;
  if (control == kControlFd) {
    (void)::fcntl(control, F_SETFD, 0);
  } else if (::dup2(control, kControlFd) < 0) {
    ::_exit(127);
  }
  (void)::syscall(SYS_close_range, 4U, ~0U, 0U);
  std::array<char*, 3> arguments{const_cast<char*>("outriggerd"), const_cast<char*>("serve"), nullptr};
  ::execve(path, arguments.data(), environ);
  ::_exit(127);
}

std::string describe(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    const char* name = ::strsignal(signal);
    return "was killed by signal " + std::to_string(signal) + " (" + (name != nullptr ? name : "unknown") + ")";
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return "could not be started (exec failed)";
  return "exited with status " + std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

constexpr int kFarewellMs = 500;

// Collects those that have ended.
bool any_runs(std::vector<pid_t>& pids) {
  bool any = false;
  for (pid_t& pid : pids) {
    if (pid > 0 && ::waitpid(pid, nullptr, WNOHANG) != 0) pid = -1;
    any = any || pid > 0;
  }
  return any;
}

}  // namespace

ProcessStarter::ProcessStarter(std::string daemon_path)
    : daemon_path_(daemon_path.empty() ? own_path() : std::move(daemon_path)) {}

ProcessStarter::~ProcessStarter() {
  stop_all();
}

Result<StartedService> ProcessStarter::start() {
  Result<SocketPair> sockets = make_socket_pair();
  if (!sockets) return Error{sockets.error()};
  const pid_t keeper = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Error{std::string("cannot start a service process: ") + std::strerror(errno)};
  if (pid == 0) become_service(daemon_path_.c_str(), sockets.value().theirs.get(), keeper);
  pids_.push_back(pid);
  StartedService started;
  started.control = std::move(sockets.value().ours);
  started.exit_event.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  started.pid = pid;
  return started;
}

std::string ProcessStarter::how_it_ended(std::uint32_t sp) {
  if (sp >= pids_.size() || pids_[sp] <= 0) return "ended";
  int status = 0;
  pid_t reaped = 0;
  // Its descriptors close a moment before it can be waited for.
  for (int attempt = 0; attempt < 200 && reaped == 0; ++attempt) {
    reaped = ::waitpid(pids_[sp], &status, WNOHANG);
    if (reaped == 0) ::usleep(1000);
  }
  if (reaped != pids_[sp]) return "closed its control socket";
  pids_[sp] = -1;
  return describe(status);
}

void ProcessStarter::stop_all() {
  // They end by themselves when their control closes, and may have a word to say to other nodes.
  for (int left_ms = kFarewellMs; left_ms > 0 && any_runs(pids_); --left_ms) ::usleep(1000);
  for (const pid_t pid : pids_) {
    if (pid > 0) (void)::kill(pid, SIGKILL);
  }
  for (pid_t& pid : pids_) {
    while (pid > 0 && ::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid = -1;
  }
}

ThreadStarter::~ThreadStarter() {
  stop_all();
}

Result<StartedService> ThreadStarter::start() {
  Result<SocketPair> sockets = make_socket_pair();
  if (!sockets) return Error{sockets.error()};
  threads_.emplace_back([control = std::move(sockets.value().theirs)]() mutable {
    Service service(std::move(control));
    (void)service.run();
  });
  StartedService started;
  started.control = std::move(sockets.value().ours);
  return started;
}

std::string ThreadStarter::how_it_ended(std::uint32_t) {
  return "ended";
}

void ThreadStarter::stop_all() {
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace outrigger::service
