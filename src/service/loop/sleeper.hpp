// How a service process sleeps.
//
//   a turn without work   it spins; where its core is not its own, it yields
//   so for a while        it tells whoever brings work that it must be woken, looks once more, and blocks on its
//                         descriptors until something comes or a port wants to look
//   ranks compute on its core    it blocks at once: every look that finds nothing is taken from them, and a turn that
//                         is given to them lasts as long as they like
//
// Doorbells are rung, and messages of the network waited for, only from the telling on: waking another core is dear.
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

  // `control`: the keeper's, which wakes as well. All must outlive this.
  Sleeper(int control, const fabric::Ports& ports, PostIntake& posts);
  // Of this process's core.
  void share_core(copy::CoreShare share);
  // What others ring.
  void watch_doorbell(UniqueFd doorbell);
  void watch(const fabric::Port& port);
  // The keeper is gone: its socket would wake for ever.
  void forget_control();

  // After a turn with work, or when some may have come.
  void stay_awake();
  // After one without: it must sleep_now(), or else spin().
  [[nodiscard]] bool must_sleep_now() const;
  void sleep_now(Clock::time_point now);
  void spin();
  // Every few turns: it has had nothing to do for long enough, and all know that it must be woken.
  [[nodiscard]] bool may_sleep(Clock::time_point now);
  // False: there was something to do.
  bool sleep(Clock::time_point now);
  // An eventfd that wakes it; -1: there is none yet.
  [[nodiscard]] int doorbell() const { return doorbell_.get(); }
  // As long as there is no engine: until the keeper says something, or, while ports have something to do for it, not at
  // all.
  void sleep_until_told(Clock::time_point now);

 private:
  [[nodiscard]] std::chrono::microseconds patience() const;
  [[nodiscard]] bool all_may_sleep();
  // `but`: is not looked at, nor waited for.
  [[nodiscard]] bool arm(const fabric::Port* but = nullptr);
  [[nodiscard]] int timeout_ms(Clock::time_point now) const;
  void watch(int descriptor);
  void drain_doorbell() const;
  void wake_up();

  int control_;  // -1: there is none any more
  const fabric::Ports& ports_;
  PostIntake& posts_;
  UniqueFd epoll_;
  UniqueFd doorbell_;
  bool core_is_own_ = true;
  std::uint32_t spins_ = 0;
  bool idle_ = false;
  Clock::time_point idle_since_;
  bool telling_ = false;  // some may have been told that this process sleeps
};

}  // namespace outrigger::service
