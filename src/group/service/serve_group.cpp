#include "group/service/serve_group.hpp"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/futex.hpp"
#include "group/member_processes.hpp"
#include "group/service/posted_work.hpp"
#include "group/service/service_area.hpp"

namespace outrigger::group {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAreaFd = 3;
// After the last post: the next one may come soon, and a wake-up costs tens of microseconds. Without yields, which last
// for milliseconds where another process uses the core.
constexpr std::chrono::microseconds kAwake{100};
constexpr std::chrono::milliseconds kBetweenLooksAtMembers{200};

// 0 or an error number.
int run_on(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= CPU_SETSIZE) return EINVAL;
    CPU_SET(cpu, &set);
  }
  return ::sched_setaffinity(0, sizeof set, &set) == 0 ? 0 : errno;
}

class GroupServer {
 public:
  GroupServer(ServiceArea area, MemberProcesses processes)
      : area_(std::move(area)), processes_(std::move(processes)), work_(area_, processes_) {}

  void run() {
    while (serve_next()) ++next_;
  }

 private:
  // False: it is not needed any more.
  bool serve_next() {
    const Clock::time_point awake_until = Clock::now() + kAwake;
    while (!all_have_posted()) {
      if (Clock::now() < awake_until) continue;
      sleep();
      if (is_over()) return false;
    }
    const bool done = work_.run(next_);
    (done ? head().completed : head().returned).store(next_, std::memory_order_release);
    head().changes.fetch_add(1, std::memory_order_release);
    futex_wake_all(head().changes);
    return true;
  }

  [[nodiscard]] ServiceHead& head() const { return area_.head(); }
  [[nodiscard]] bool all_have_posted() const {
    for (std::uint32_t member = 0; member < area_.members(); ++member) {
      if (area_.seat(member).posted.load(std::memory_order_acquire) < next_) return false;
    }
    return true;
  }
  [[nodiscard]] bool is_over() const {
    if (head().stopped.load(std::memory_order_relaxed) != 0) return true;
    const bool first_has_ended = processes_.has_ended(0);
    for (std::uint32_t member = 0; member < area_.members(); ++member) {
      const PostSeat& seat = area_.seat(member);
      // Without the first member, which has made this memory, no other can join.
      const bool may_come = !first_has_ended || seat.has_joined.load(std::memory_order_acquire);
      if (may_come && !seat.has_left.load(std::memory_order_acquire) && !processes_.has_ended(member)) return false;
    }
    return true;
  }
  // A post rings after it is visible, and then looks whether the process sleeps.
  void sleep() {
    head().sleeps.store(1, std::memory_order_seq_cst);
    const std::uint32_t seen = head().doorbell.load(std::memory_order_seq_cst);
    if (!all_have_posted()) futex_wait(head().doorbell, seen, kBetweenLooksAtMembers);
    head().sleeps.store(0, std::memory_order_relaxed);
  }

  ServiceArea area_;
  MemberProcesses processes_;
  PostedWork work_;
  std::uint64_t next_ = 1;
};

}  // namespace

int serve_group(const ServedGroup& group) {
  const auto members = static_cast<std::uint32_t>(group.pids.size());
  const Result<ServiceArea> area = ServiceArea::attach(kAreaFd, members);
  if (!area) return 2;
  if (const int error = run_on(group.cpus); error != 0) {
    area.value().head().start_error.store(error, std::memory_order_release);
    return 1;
  }
  Result<MemberProcesses> processes = MemberProcesses::open(group.pids);
  if (!processes) return 1;
  const pid_t child = ::fork();
  if (child < 0) return 1;
  if (child > 0) {
    area.value().head().pid.store(static_cast<std::uint32_t>(child), std::memory_order_release);
    ::_exit(0);
  }
  if (::chdir("/") != 0) return 1;
  // A child has no shared memory of its parent.
  Result<ServiceArea> own = ServiceArea::attach(kAreaFd, members);
  if (!own) return 1;
  GroupServer(std::move(own).value(), std::move(processes).value()).run();
  return 0;
}

}  // namespace outrigger::group
