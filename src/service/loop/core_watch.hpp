// Decides if a service process's core is free. A core without ranks may still be used by other jobs, other users or the
// program's own threads. A service process that loses its core for time slices makes every operation that much longer.
//
// Works on readings that it is given.
//
// Thread rule: one thread.
#pragma once

#include <chrono>

namespace outrigger::service {

// Run times of a thread since its start.
struct RunTimes {
  std::chrono::nanoseconds ran{0};
  std::chrono::nanoseconds waited{0};  // runnable while others ran
  std::chrono::nanoseconds lent{0};    // its ranks' copiers ran on its core, which is intended
};

class CoreWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // The first call sets the start.
  void note(const RunTimes& times, Clock::time_point now);
  // While taken: the share of the time since the last call in which the core was idle or used by this process.
  void note_free_share(double share, Clock::duration since_last, Clock::time_point now);
  [[nodiscard]] bool taken() const { return taken_; }
  // Time runnable while others ran, without copiers; the last few milliseconds are not counted yet.
  [[nodiscard]] std::chrono::nanoseconds lost() const { return lost_; }

 private:
  // About ten time slices of others. A daemon that wakes up uses four or five in a row: reacting to it would cost up to
  // a second without overlap.
  static constexpr std::chrono::milliseconds kWindow{100};
  static constexpr std::chrono::milliseconds kMuch{30};
  static constexpr double kMuchShare = 0.3;
  // After this much idle time the core is free again; the time doubles each time it is taken again soon.
  static constexpr double kFreeShare = 0.85;
  static constexpr std::chrono::milliseconds kShortestRest{1000};
  static constexpr std::chrono::milliseconds kLongestRest{64000};
  static constexpr std::chrono::seconds kSoon{10};

  bool known_ = false;
  RunTimes last_;
  RunTimes window_;
  std::chrono::nanoseconds lost_{0};
  bool taken_ = false;
  Clock::duration free_for_{0};
  Clock::duration rest_ = kShortestRest;
  Clock::time_point freed_at_ = Clock::time_point::min();
};

}  // namespace outrigger::service
