// Whether a service process's core is free for it. Cores that no rank may use are not therefore free: other jobs, other
// users or the program's own threads may have them, and a service process that loses its core for time slices makes
// every operation as long as these.
//
// Decides by readings; reads nothing itself. Thread rule: one thread.
#pragma once

#include <chrono>

namespace outrigger::service {

// Of a thread since its start.
struct RunTimes {
  std::chrono::nanoseconds ran{0};
  std::chrono::nanoseconds waited{0};  // it wanted to run while others did
  std::chrono::nanoseconds lent{0};    // its ranks' copiers ran, which are there for it, on its core
};

class CoreWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // The first one is where counting begins.
  void note(const RunTimes& times, Clock::time_point now);
  // While taken: the share of the time since the last one in which the core was idle or this process's own.
  void note_free_share(double share, Clock::duration since_last, Clock::time_point now);
  [[nodiscard]] bool taken() const { return taken_; }
  // How long it wanted to run while others did, but for copiers; the last few milliseconds are not counted yet.
  [[nodiscard]] std::chrono::nanoseconds lost() const { return lost_; }

 private:
  // Some ten time slices of others. A daemon that wakes up has four or five in a row, and is gone again: to have lost
  // them costs less than a second without overlap.
  static constexpr std::chrono::milliseconds kWindow{100};
  static constexpr std::chrono::milliseconds kMuch{30};
  static constexpr double kMuchShare = 0.3;
  // Idle so long it is free again, and each time that it is taken soon afterwards twice as long.
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
