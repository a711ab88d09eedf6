#include "service/keeper/keeper.hpp"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "service/log.hpp"
#include "service/loop/job_protest.hpp"

namespace outrigger::service {
namespace {

constexpr std::chrono::milliseconds kLookAtDpu{500};
constexpr std::chrono::milliseconds kTermAfter{1000};
constexpr std::chrono::milliseconds kKillAfter{2500};
constexpr std::chrono::milliseconds kGiveUpAfter{4500};

// A descriptor per region and rank, a ring per pair of service processes: use what the system allows.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Keeper::Keeper(KeeperConfig config, UniqueFd listener, ServiceStarter& starter)
    : config_(std::move(config)),
      listener_(std::move(listener)),
      starter_(starter),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      stop_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      phase_began_(Clock::now()),
      ranks_(config_.local_size) {
  raise_descriptor_limit();
  watch(listener_.get(), Watched::listener, 0);
  watch(stop_event_.get(), Watched::stop, 0);
  if (starter_.state_event() >= 0) watch(starter_.state_event(), Watched::service_state, 0);
  if (config_.leader_pid > 0) {
    leader_.reset(static_cast<int>(::syscall(SYS_pidfd_open, config_.leader_pid, 0)));
    if (leader_.valid()) {
      watch(leader_.get(), Watched::leader, 0);
    } else if (errno == ESRCH) {
      refuse_everybody("the process that started the keeper has ended");
    }
  }
}

Keeper::~Keeper() {
  for (ServiceProcess& service : services_) service.socket.close();
  starter_.stop_all();
}

int Keeper::run() {
  std::array<epoll_event, 64> events{};
  while (phase_ != Phase::over) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), next_timeout_ms());
    for (int i = 0; i < count && phase_ != Phase::over; ++i) {
      handle_event(events[static_cast<std::size_t>(i)].data.u64);
    }
    handle_timers();
  }
  for (ServiceProcess& service : services_) service.socket.close();
  dpu_.close();
  starter_.stop_all();
  return exit_status_;
}

void Keeper::stop() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_event_.get(), &one, sizeof(one));
}

void Keeper::watch(int fd, Watched what, std::uint32_t index, bool writable) {
  epoll_event event{};
  event.events = writable ? (EPOLLIN | EPOLLOUT) : EPOLLIN;
  event.data.u64 = (static_cast<std::uint64_t>(what) << 32) | index;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
  }
}

void Keeper::unwatch(int fd) {
  if (fd >= 0) (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

// What an event names may have gone while an earlier one of the same batch was handled; everybody here looks first.
void Keeper::handle_event(std::uint64_t key) {
  const auto index = static_cast<std::uint32_t>(key);
  switch (static_cast<Watched>(key >> 32)) {
    case Watched::listener: return accept_strangers();
    case Watched::stop: phase_ = Phase::over; return;
    case Watched::leader:
      unwatch(leader_.get());
      if (phase_ == Phase::gathering) refuse_everybody("the process that started the keeper has ended");
      return;
    case Watched::stranger: return read_stranger(index);
    case Watched::rank: return read_rank(index);
    case Watched::rank_exit: return rank_left(index, "ended");
    case Watched::service: return read_service(index);
    case Watched::service_exit: return service_lost(index);
    case Watched::service_state: starter_.clear_state_event(); return look_for_stopped_services();
    case Watched::dpu: return work_on_dpu();
  }
}

int Keeper::next_timeout_ms() const {
  std::optional<Clock::time_point> next;
  const auto at = [&](Clock::time_point time) { next = next ? std::min(*next, time) : time; };
  for (const auto& [index, stranger] : strangers_) at(stranger.deadline);
  if (dpu_.open()) at(Clock::now() + kLookAtDpu);
  if (stopped_.any()) at(Clock::now() + StoppedServices::kTurn);
  switch (phase_) {
    case Phase::gathering: at(phase_began_ + std::chrono::milliseconds(config_.hello_timeout_ms)); break;
    case Phase::attaching: at(phase_began_ + std::chrono::milliseconds(config_.attach_timeout_ms)); break;
    case Phase::ending:
      at(phase_began_ + (last_signal_ == 0 ? kTermAfter : last_signal_ == SIGTERM ? kKillAfter : kGiveUpAfter));
      break;
    default: break;
  }
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 3'600'000));
}

void Keeper::handle_timers() {
  const Clock::time_point now = Clock::now();
  std::erase_if(strangers_, [&](auto& item) { return item.second.deadline <= now; });
  if (dpu_.open()) work_on_dpu();
  if (stopped_.any()) look_for_stopped_services();
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - phase_began_);
  if (phase_ == Phase::gathering && waited.count() >= config_.hello_timeout_ms) {
    refuse_everybody("only " + std::to_string(ranks_present()) + " of " + std::to_string(config_.local_size) +
                     " ranks of this node appeared within " + std::to_string(config_.hello_timeout_ms) + " ms");
  } else if (phase_ == Phase::attaching && waited.count() >= config_.attach_timeout_ms) {
    refuse_everybody("the service processes were not ready within " + std::to_string(config_.attach_timeout_ms) +
                     " ms");
  } else if (phase_ == Phase::ending && waited >= kGiveUpAfter) {
    phase_ = Phase::over;
  } else if (phase_ == Phase::ending && waited >= kKillAfter && last_signal_ != SIGKILL) {
    signal_ranks(SIGKILL);
  } else if (phase_ == Phase::ending && waited >= kTermAfter && last_signal_ == 0) {
    signal_ranks(SIGTERM);
  }
}

// Before anybody was welcomed: the programs go on natively.
void Keeper::refuse_everybody(const std::string& reason) {
  spdlog::warn("refused: {}", reason);
  for (Rank& rank : ranks_) {
    if (rank.present && rank.socket.open()) refuse(rank.socket, reason);
  }
  for (auto& [index, stranger] : strangers_) refuse(stranger.socket, reason);
  exit_status_ = 1;
  phase_ = Phase::over;
}

void Keeper::end_when_empty() {
  if ((phase_ == Phase::running || phase_ == Phase::ending) && ranks_present() == 0) phase_ = Phase::over;
}

std::uint32_t Keeper::ranks_present() const {
  return static_cast<std::uint32_t>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.present; }));
}

}  // namespace outrigger::service
