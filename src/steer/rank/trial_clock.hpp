// The time that a thread loses by its collectives while a trial (steer/plan/decision.hpp) is under way: all the
// time that passes but that in which its processor computes for the program. So it counts what it waits in collectives
// and completion calls, and what others, as service processes on its core, take from its computing.
//
// Where no communicator is in a trial nothing is measured, which costs a load a call.
//
// Thread rule: any thread; each has figures of its own.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "steer/plan/decision.hpp"

namespace outrigger::steer {

namespace detail {
extern constinit std::atomic<std::uint32_t> trials_under_way;
}
[[nodiscard]] inline bool measuring() {
  return detail::trials_under_way.load(std::memory_order_relaxed) != 0;
}

// While it lives the calling thread is in a call of the program into MPI.
class InsideMpi {
 public:
  InsideMpi();
  InsideMpi(const InsideMpi&) = delete;
  InsideMpi& operator=(const InsideMpi&) = delete;
  ~InsideMpi();
};

// The windows of a communicator's trial, as a rank measures them.
class TrialClock {
 public:
  TrialClock() = default;
  TrialClock(const TrialClock&) = delete;
  TrialClock& operator=(const TrialClock&) = delete;
  ~TrialClock() { stop(); }

  // A call begins a window; the first of a trial begins anew.
  void begin(std::uint32_t window);
  // The last window is over. Spoiled where the program's calls came from several threads.
  [[nodiscard]] TrialTimes end();
  // Any thread. Its times are not to be trusted.
  void spoil() { spoiled_.store(true, std::memory_order_relaxed); }
  // It has been given up.
  void stop();

 private:
  struct Reading {
    std::int64_t now_ns = 0;
    std::int64_t computed_ns = 0;
    const void* thread = nullptr;
  };
  [[nodiscard]] static Reading read();
  void close_window();

  bool running_ = false;
  std::atomic<bool> spoiled_ = false;
  std::uint32_t window_ = 0;
  Reading since_;
  TrialTimes times_;
};

}  // namespace outrigger::steer
