#include "service/keeper/supervise/starter.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "service/keeper/events.hpp"

namespace outrigger::service {
namespace {

constexpr const char* kRunning = "/proc/self/exe";

// The running program, by its path if that still is the same file: another build may have been installed since, and
// builds do not mix.
std::string own_path() {
  std::array<char, 4096> path{};
  const ssize_t bytes = ::readlink(kRunning, path.data(), path.size() - 1);
  const std::string name = bytes > 0 ? std::string(path.data(), static_cast<std::size_t>(bytes)) : std::string();
  struct stat named {};
  struct stat running {};
  const bool same = ::stat(name.c_str(), &named) == 0 && ::stat(kRunning, &running) == 0 &&
                    named.st_dev == running.st_dev && named.st_ino == running.st_ino;
  return same ? name : kRunning;
}

// `how`: SIG_BLOCK or SIG_UNBLOCK.
sigset_t mask_child_signals(int how) {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGCHLD);
  ::sigprocmask(how, &signals, nullptr);
  return signals;
}

// Also if the parent ignored SIGCHLD: children could not be waited for.
UniqueFd take_child_signals() {
  (void)::signal(SIGCHLD, SIG_DFL);
  const sigset_t signals = mask_child_signals(SIG_BLOCK);
  return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

// In the child, between fork and exec: only async-signal-safe calls. Does not return.
[[noreturn]] void become_service(const char* path, int control, int standard_error, pid_t keeper) {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  (void)mask_child_signals(SIG_UNBLOCK);
  if (::getppid() != keeper) ::_exit(127);  // the keeper ended before the prctl() took effect
  constexpr int kControlFd = 3;
  if (standard_error >= 0) (void)::dup2(standard_error, STDERR_FILENO);
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

constexpr int kEndLimitMs = 500;

}  // namespace

ProcessStarter::ProcessStarter(std::string daemon_path)
    : daemon_path_(std::move(daemon_path)), state_event_(take_child_signals()) {}

ProcessStarter::~ProcessStarter() {
  stop_all();
}

Result<StartedService> ProcessStarter::start(std::uint32_t sp) {
  assert(sp <= children_.size());
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    return Error{std::string("cannot make a control socket: ") + std::strerror(errno)};
  }
  StartedService started;
  started.control.reset(fds[0]);
  const UniqueFd theirs(fds[1]);
  const std::string program = daemon_path_.empty() ? own_path() : daemon_path_;
  CapturedStderr captured_stderr = CapturedStderr::open();
  const pid_t keeper = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Error{std::string("cannot start a service process: ") + std::strerror(errno)};
  if (pid == 0) become_service(program.c_str(), theirs.get(), captured_stderr.for_writer(), keeper);
  captured_stderr.started();
  if (sp == children_.size()) children_.emplace_back();
  children_[sp] = Child{.pid = pid, .captured_stderr = std::move(captured_stderr)};
  started.exit_event = exit_event_of(pid);
  started.pid = pid;
  return started;
}

void ProcessStarter::clear_state_event() {
  signalfd_siginfo signal{};
  while (::read(state_event_.get(), &signal, sizeof(signal)) > 0) {
  }
}

bool ProcessStarter::is_stopped(std::uint32_t sp) {
  if (sp >= children_.size() || children_[sp].pid <= 0) return false;
  Child& child = children_[sp];
  siginfo_t change{};
  // Each change is reported once; an ended child stays waitable.
  while (::waitid(P_PID, static_cast<id_t>(child.pid), &change, WSTOPPED | WCONTINUED | WNOHANG) == 0 &&
         change.si_pid == child.pid) {
    child.stopped = change.si_code == CLD_STOPPED;
    change = siginfo_t{};
  }
  return child.stopped;
}

std::string ProcessStarter::how_it_ended(std::uint32_t sp) {
  if (sp >= children_.size() || children_[sp].pid <= 0) return "ended";
  pid_t& pid = children_[sp].pid;
  int status = 0;
  pid_t reaped = 0;
  // Its descriptors close a moment before it can be waited for.
  for (int attempt = 0; attempt < 200 && reaped == 0; ++attempt) {
    reaped = ::waitpid(pid, &status, WNOHANG);
    if (reaped == 0) ::usleep(1000);
  }
  if (reaped != pid) return "closed its control socket";
  pid = -1;
  children_[sp].killed = WIFSIGNALED(status);
  const std::string words = children_[sp].captured_stderr.take();
  // its stderr does not explain a SIGKILL from outside
  const bool by_others = children_[sp].killed && WTERMSIG(status) == SIGKILL;
  return words.empty() || by_others ? describe(status) : describe(status) + ", saying \"" + words + "\",";
}

void ProcessStarter::renumber(std::uint32_t from, std::uint32_t to) {
  assert(from + 1 == children_.size() && to < from);
  children_[to] = std::move(children_[from]);
  children_.pop_back();
}

bool ProcessStarter::any_runs() {
  bool any = false;
  for (Child& child : children_) {
    if (child.pid > 0 && ::waitpid(child.pid, nullptr, WNOHANG) != 0) child.pid = -1;
    any = any || child.pid > 0;
  }
  return any;
}

void ProcessStarter::stop_all() {
  // They end by themselves when their control socket closes, and may have messages for other nodes.
  for (int left_ms = kEndLimitMs; left_ms > 0 && any_runs(); --left_ms) ::usleep(1000);
  for (const Child& child : children_) {
    if (child.pid > 0) (void)::kill(child.pid, SIGKILL);
  }
  for (Child& child : children_) {
    while (child.pid > 0 && ::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    child.pid = -1;
  }
}

}  // namespace outrigger::service
