// The cost of a trial (steer/plan/decision.hpp) to the program, as seen by the rank that has asked for it: how much
// longer the calls by the other method take. A few windows show that a method is many times slower than the usual one;
// to go through all of them would then be dearer than the twentieth of the calls that they are.
//
// Thread rule: one thread at a time, as MPI has it for the calls of a communicator.
#pragma once

#include <algorithm>
#include <cstdint>

#include "steer/plan/decision.hpp"

namespace outrigger::steer {

class TrialCost {
 public:
  // The rank asks for one: a window of the usual method takes about so long.
  void expect(std::int64_t window_ns) {
    *this = TrialCost{};
    watching_ = true;
    usual_ns_ = window_ns;
  }
  // A call of the trial, of that window, which it begins or goes on with. True, once: it should be given up.
  [[nodiscard]] bool too_much(const Trial& trial, std::uint32_t window, bool begins, std::int64_t now_ns) {
    if (!watching_) return false;
    if (begins) enter(trial, window, now_ns);
    const std::int64_t late_ns =
        trial.other_in(window) ? std::max<std::int64_t>(0, now_ns - since_ns_ - usual_ns()) : 0;
    if (excess_ns_ + late_ns <= allowed_ns(window)) return false;
    excess_ns_ += late_ns;
    watching_ = false;
    return true;
  }
  // The last window is over.
  void end(const Trial& trial, std::int64_t now_ns) {
    if (watching_) enter(trial, kTrialWindows, now_ns);
    watching_ = false;
  }
  // The most that a whole trial costs, but for a call that goes on when it is given up.
  [[nodiscard]] static std::int64_t most_ns(std::int64_t window_ns) {
    return (kFirstPairAllowed + 1) * std::max(kAlwaysAllowed_ns, kWindowsAllowed * window_ns);
  }
  // So far, in the windows that are over.
  [[nodiscard]] std::int64_t total_ns() const { return warm_up_ns_ + excess_ns_; }

 private:
  // Two windows; or this, so that a daemon which wakes up, or a time slice of the kernel, ends none.
  static constexpr std::int64_t kAlwaysAllowed_ns = 5'000'000;
  static constexpr std::int64_t kWindowsAllowed = 2;
  static constexpr std::int64_t kFirstPairAllowed = 2;  // times as much: connections are made, memory is touched

  void enter(const Trial& trial, std::uint32_t window, std::int64_t now_ns) {
    if (window != 0) leave(trial, window - 1, now_ns - since_ns_);
    if (window == 2) {
      warm_up_ns_ = excess_ns_;
      excess_ns_ = 0;
    }
    since_ns_ = now_ns;
  }
  void leave(const Trial& trial, std::uint32_t window, std::int64_t passed_ns) {
    if (trial.other_in(window)) {
      excess_ns_ += passed_ns - usual_ns();
    } else {
      usual_ns_ += passed_ns;
      ++usual_windows_;
    }
  }
  [[nodiscard]] std::int64_t usual_ns() const { return usual_ns_ / usual_windows_; }
  [[nodiscard]] std::int64_t allowed_ns(std::uint32_t window) const {
    return std::max(kAlwaysAllowed_ns, kWindowsAllowed * usual_ns()) * (window < 2 ? kFirstPairAllowed : 1);
  }

  bool watching_ = false;
  std::int64_t usual_ns_ = 0;  // of all windows of the usual method, with what was expected for one
  std::int64_t usual_windows_ = 1;
  std::int64_t since_ns_ = 0;   // when the window began
  std::int64_t excess_ns_ = 0;  // of windows that are over
  std::int64_t warm_up_ns_ = 0;
};

}  // namespace outrigger::steer
