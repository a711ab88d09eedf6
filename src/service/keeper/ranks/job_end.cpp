#include "service/keeper/ranks/job_end.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/unread_output.hpp"
#include "protocol/shared/segment.hpp"
#include "service/notices/fatal.hpp"
#include "service/notices/log.hpp"

namespace outrigger::service {
namespace {

struct Step {
  std::chrono::milliseconds after;
  int signal;  // 0: stop waiting
};
using std::chrono::milliseconds;
constexpr std::array<Step, 3> kSteps{
    {{milliseconds{1000}, SIGTERM}, {milliseconds{2500}, SIGKILL}, {milliseconds{4500}, 0}}};

UniqueFd open_stderr(pid_t pid, int pidfd) {
  UniqueFd fd;
  if (pidfd >= 0) fd.reset(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd, STDERR_FILENO, 0)));
  if (fd.valid() || (pidfd >= 0 && errno == ESRCH)) return fd;  // ended: its pid may be reused by now
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/2";
  fd.reset(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  return fd;
}

// Prints one line, best effort, with a short time limit. False: its standard error cannot be opened.
bool print_on_stderr_of(pid_t pid, int pidfd, const std::string& line, bool job_ends) {
  const UniqueFd fd = open_stderr(pid, pidfd);
  if (!fd.valid()) return false;
  // The open file may be shared with the program, so its flags are left alone; short lines fit once it is writable.
  constexpr int kPrintLimitMs = 200;
  pollfd ready{fd.get(), POLLOUT, 0};
  if (::poll(&ready, 1, kPrintLimitMs) <= 0) return false;
  const std::string text = line + "\n";
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return false;
  if (!job_ends) return true;
  // The launcher may discard what it has not read by then.
  constexpr std::chrono::milliseconds kForTheLauncherToRead{500};
  wait_until_read(fd.get(), kForTheLauncherToRead);
  return true;
}

}  // namespace

void JobEnd::begin(const std::string& text, Clock::time_point now) {
  spdlog::critical("{}", text);
  began_ = now;
  print_for_people(text, After::job_ends);
  for (const LocalRank& rank : ranks_) {
    if (rank.present) write_fatal(SegmentView(rank.segment.base()), text, FatalState::said);
  }
}

// Ranks put it into the report.
void JobEnd::warn(const std::string& text) const {
  print_for_people("outrigger: " + text, After::job_goes_on);
  for (const LocalRank& rank : ranks_) {
    if (rank.present) write_warning(SegmentView(rank.segment.base()), text);
  }
}

JobEnd::Clock::time_point JobEnd::next_step() const {
  return began_ + kSteps[steps_taken_].after;
}

bool JobEnd::advance(Clock::time_point now) {
  if (now < next_step()) return false;
  const int signal = kSteps[steps_taken_].signal;
  if (signal == 0) return true;
  ++steps_taken_;
  if (config_.end_ranks) signal_ranks(signal);
  return false;
}

// A few attempts only: each blocked one costs time, and the job is to end soon.
void JobEnd::print_for_people(const std::string& text, After after) const {
  const bool ends = after == After::job_ends;
  if (leader_.valid() && print_on_stderr_of(config_.leader_pid, leader_.get(), text, ends)) return;
  int tries = 3;
  for (const LocalRank& rank : ranks_) {
    if (!rank.present || rank.pid <= 0 || rank.pid == ::getpid()) continue;
    if (print_on_stderr_of(rank.pid, rank.exit_event.get(), text, ends) || --tries == 0) return;
  }
}

void JobEnd::signal_ranks(int signal) const {
  for (const LocalRank& rank : ranks_) {
    if (!rank.present || !rank.exit_event.valid() || rank.pid == ::getpid()) continue;
    (void)::syscall(SYS_pidfd_send_signal, rank.exit_event.get(), signal, nullptr, 0);
  }
}

}  // namespace outrigger::service
