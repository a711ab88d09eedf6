// How a service process sleeps.
//
//   no work in a turn     it spins; if it shares its core, it yields
//   no work for a while   it announces that it must be woken, looks once more, and blocks on its descriptors until
//                         an event or a port's deadline
//   ranks compute on its core    it blocks at once: every look without a result costs the ranks time, and a yield to
//                                them may last a whole time slice
//
// Others ring doorbells, and network events are armed, only after the announcement: waking another core is expensive.
//
// Thread rule: one thread.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/unique_fd.hpp"
#include "copy/core_share.hpp"
#include "fabric/port.hpp"
#include "service/loop/post_intake.hpp"

namespace outrigger::service {

class Sleeper {
 public:
  using Clock = fabric::Port::Clock;

  // `control`: the keeper's socket, which also wakes. All must outlive this.
  Sleeper(int control, const fabric::Ports& ports, PostIntake& posts);
  // Sharing of this process's core.
  void share_core(copy::CoreShare share);
  // The eventfd that others ring.
  void watch_doorbell(UniqueFd doorbell);
  void watch(const fabric::Port& port);
  // The keeper is gone: its closed socket would wake for ever.
  void forget_control();

  // After a turn with work, or when there may be some.
  void stay_awake();
  // After a turn without work: call sleep_now() if true, else spin().
  [[nodiscard]] bool must_sleep_now() const;
  void sleep_now(Clock::time_point now);
  void spin();
  // Every few turns: true if it has been idle for long enough and all wakers are armed.
  [[nodiscard]] bool may_sleep(Clock::time_point now);
  // False: there was something to do.
  bool sleep(Clock::time_point now);
  // An eventfd that wakes it; -1 if there is none yet.
  [[nodiscard]] int doorbell() const { return doorbell_.get(); }
  // Before there is an engine: sleeps until the keeper sends something; returns at once while ports have work for it.
  void sleep_until_message(Clock::time_point now);

 private:
  [[nodiscard]] std::chrono::microseconds spin_time() const;
  [[nodiscard]] bool all_may_sleep();
  // `but`: a port that is neither checked nor waited for.
  [[nodiscard]] bool arm(const fabric::Port* but = nullptr);
  [[nodiscard]] int timeout_ms(Clock::time_point now) const;
  void watch(int descriptor);
  void drain_doorbell() const;
  void wake_up();

  int control_;  // -1 if there is none any more
  const fabric::Ports& ports_;
  PostIntake& posts_;
  UniqueFd epoll_;
  UniqueFd doorbell_;
  bool core_is_own_ = true;
  std::uint32_t spins_ = 0;
  bool idle_ = false;
  Clock::time_point idle_since_;
  bool announced_ = false;  // some wakers may know that this process sleeps
};

}  // namespace outrigger::service
