#include "group/service/serve_group.hpp"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/futex.hpp"
#include "group/layout.hpp"
#include "group/member_processes.hpp"
#include "group/nodes/socket_stream.hpp"
#include "group/service/nodes_work.hpp"
#include "group/service/peer_services.hpp"
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
// Members of other nodes may wait for a vote.
constexpr std::chrono::milliseconds kBetweenLooksAtNodes{10};

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

// By node; nullptr for the own one.
std::vector<std::unique_ptr<Stream>> streams_of(const Layout& layout) {
  std::vector<std::unique_ptr<Stream>> streams(layout.nodes());
  int next = kAreaFd + 1;
  for (std::uint32_t node = 0; node < layout.nodes(); ++node) {
    if (node != layout.node()) streams[node] = std::make_unique<SocketStream>(GuardedFd(UniqueFd(next++)));
  }
  return streams;
}

// The part that a group on several nodes has besides.
class AcrossNodes {
 public:
  AcrossNodes(const ServiceArea& area, const MemberProcesses& processes, const Layout& layout,
              std::function<bool()> is_over)
      : layout_(layout),
        peers_(streams_of(layout_), area, std::move(is_over)),
        work_(area, processes, layout_, peers_) {}
  AcrossNodes(const AcrossNodes&) = delete;
  AcrossNodes& operator=(const AcrossNodes&) = delete;
  ~AcrossNodes() = default;

  [[nodiscard]] PeerServices& peers() { return peers_; }
  [[nodiscard]] NodesWork& work() { return work_; }

 private:
  Layout layout_;
  PeerServices peers_;
  NodesWork work_;
};

class GroupServer {
 public:
  GroupServer(ServiceArea area, MemberProcesses processes, const ServedGroup& group)
      : area_(std::move(area)), processes_(std::move(processes)), work_(area_, processes_) {
    if (group.first_of.empty()) return;
    nodes_.emplace(area_, processes_, Layout(group.rank, group.first_of), [this] { return is_over(); });
  }

  void run() {
    while (serve_next()) ++next_;
  }

 private:
  // False: it is not needed any more.
  bool serve_next() {
    const Clock::time_point awake_until = Clock::now() + kAwake;
    while (!all_have_posted()) {
      if (Clock::now() < awake_until) continue;
      if (nodes_) nodes_->peers().answer();
      sleep();
      const bool is_over = this->is_over();
      // Members wait for one after they have left.
      head().beats.fetch_add(1, std::memory_order_relaxed);
      if (!is_over) continue;
      if (nodes_ && head().stopped.load(std::memory_order_relaxed) == 0) nodes_->peers().leave();
      return false;
    }
    const std::optional<bool> done = nodes_ ? done_with_nodes() : work_.run(next_);
    if (!done) {
      wait_for_the_end();
      nodes_->peers().transfers().abandon();
      return false;
    }
    (*done ? head().completed : head().returned).store(next_, std::memory_order_release);
    head().changes.fetch_add(1, std::memory_order_release);
    futex_wake_all(head().changes);
    return true;
  }

  // False: the members must do it. Nothing: it has failed.
  [[nodiscard]] std::optional<bool> done_with_nodes() {
    switch (nodes_->work().run()) {
      case NodesWork::Result::done: return true;
      case NodesWork::Result::by_members: return false;
      case NodesWork::Result::ended: break;
    }
    return std::nullopt;
  }
  // Other nodes could take a connection that breaks for the cause.
  void wait_for_the_end() const {
    while (!is_over()) {
      const std::uint32_t seen = head().doorbell.load(std::memory_order_seq_cst);
      futex_wait(head().doorbell, seen, kBetweenLooksAtNodes);
      head().beats.fetch_add(1, std::memory_order_relaxed);
    }
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
    if (!all_have_posted()) {
      futex_wait(head().doorbell, seen, nodes_ ? kBetweenLooksAtNodes : kBetweenLooksAtMembers);
    }
    head().sleeps.store(0, std::memory_order_relaxed);
  }

  ServiceArea area_;
  MemberProcesses processes_;
  PostedWork work_;
  std::optional<AcrossNodes> nodes_;
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
  GroupServer(std::move(own).value(), std::move(processes).value(), group).run();
  return 0;
}

}  // namespace outrigger::group
