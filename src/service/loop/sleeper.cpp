#include "service/loop/sleeper.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace outrigger::service {
namespace {

using std::chrono::microseconds;

constexpr microseconds kSpinOnFreeCore{5000};
constexpr microseconds kSpinOnSharedCore{50};
constexpr std::uint32_t kSpinsPerYield = 16;
constexpr unsigned kStartPauseUs = 20;
constexpr int kNoTimeout = -1;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Sleeper::Sleeper(int control, const fabric::Ports& ports, PostIntake& posts)
    : control_(control), ports_(ports), posts_(posts), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  watch(control_);
}

void Sleeper::share_core(copy::CoreShare share) {
  core_is_own_ = share == copy::CoreShare::own;
}

void Sleeper::watch(int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event);
}

void Sleeper::watch_doorbell(UniqueFd doorbell) {
  if (doorbell_.valid()) return;  // each rank brings the same one
  doorbell_ = std::move(doorbell);
  watch(doorbell_.get());
}

void Sleeper::watch(const fabric::Port& port) {
  for (const int descriptor : port.descriptors()) watch(descriptor);
}

void Sleeper::forget_control() {
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, control_, nullptr);
  control_ = -1;
}

void Sleeper::stay_awake() {
  idle_ = false;
  wake_up();
}

bool Sleeper::must_sleep_now() const {
  return !core_is_own_ && !posts_.ranks_wait() &&
         std::ranges::none_of(ports_, [](const fabric::Port& port) { return port.must_poll(); });
}

// Even a core without ranks of this job may be shared: another job may have found it free, too.
void Sleeper::spin() {
  if (!core_is_own_ || ++spins_ % kSpinsPerYield == 0) {
    (void)::sched_yield();
  } else {
    relax();
  }
}

microseconds Sleeper::spin_time() const {
  return core_is_own_ || posts_.ranks_wait() ? kSpinOnFreeCore : kSpinOnSharedCore;
}

bool Sleeper::may_sleep(Clock::time_point now) {
  if (!idle_) {
    idle_ = true;  // until the next turn with work
    idle_since_ = now;
    return false;
  }
  return now - idle_since_ > spin_time() && all_may_sleep();
}

bool Sleeper::all_may_sleep() {
  announced_ = true;
  bool all = true;
  for (fabric::Port& port : ports_) all = port.may_sleep() && all;
  return all;
}

bool Sleeper::arm(const fabric::Port* but) {
  announced_ = true;
  const bool backlogged = std::ranges::any_of(ports_, [](const fabric::Port& port) { return port.backlogged(); });
  return posts_.arm(backlogged) &&
         std::ranges::all_of(ports_, [&](fabric::Port& port) { return &port == but || port.arm(); });
}

int Sleeper::timeout_ms(Clock::time_point now) const {
  std::optional<Clock::duration> least;
  for (const fabric::Port& port : ports_) {
    const std::optional<Clock::duration> limit = port.sleep_limit(now);
    if (limit && (!least || *limit < *least)) least = limit;
  }
  if (!least) return kNoTimeout;
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(*least);
  return static_cast<int>(std::max<std::chrono::milliseconds::rep>(whole.count(), 0));
}

bool Sleeper::sleep(Clock::time_point now) {
  const bool armed = arm();
  int events = 0;
  if (armed) {
    std::array<epoll_event, 4> some{};
    events = ::epoll_wait(epoll_.get(), some.data(), static_cast<int>(some.size()), timeout_ms(now));
    drain_doorbell();
  }
  idle_ = idle_ && armed && events == 0;  // a look for a port is no reason to spin
  wake_up();
  return armed;
}

void Sleeper::sleep_now(Clock::time_point now) {
  microseconds pause{0};
  const fabric::Port* left_alone = nullptr;
  for (fabric::Port& port : ports_) {
    const microseconds wanted = port.pause(now);
    if (wanted > pause) left_alone = &port;
    pause = std::max(pause, wanted);
  }
  if (left_alone == nullptr) {
    (void)sleep(now);
    return;
  }
  if (arm(left_alone)) {
    std::array<pollfd, 2> awaited{pollfd{control_, POLLIN, 0}, pollfd{doorbell_.get(), POLLIN, 0}};
    const timespec limit{0, std::chrono::nanoseconds(pause).count()};
    (void)::ppoll(awaited.data(), awaited.size(), &limit, nullptr);
    if (awaited[1].revents != 0) drain_doorbell();
  }
  stay_awake();
}

void Sleeper::sleep_until_message(Clock::time_point now) {
  if (!all_may_sleep() || !sleep(now)) ::usleep(kStartPauseUs);
}

void Sleeper::drain_doorbell() const {
  std::uint64_t count = 0;
  if (doorbell_.valid()) {
    [[maybe_unused]] const ssize_t drained = ::read(doorbell_.get(), &count, sizeof(count));
  }
}

void Sleeper::wake_up() {
  if (!std::exchange(announced_, false)) return;
  posts_.wake_up();
  for (fabric::Port& port : ports_) port.wake_up();
}

}  // namespace outrigger::service
