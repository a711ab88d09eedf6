// When the first rank of a communicator asks for trials.
//
// Thread rule: one thread at a time, as MPI has it for the calls of a communicator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "steer/plan/decision.hpp"
#include "steer/rank/trial_cost.hpp"

namespace outrigger::steer {

// Decides when to ask for trials of one kind of call. At most a twentieth of all calls is done by another method than
// the usual one. Windows are long enough to be measured, and never of few calls. A trial may cost at most a fiftieth of
// the time since the first call, so a short program tries nothing. After a trial, the next one waits for a hundred
// times its cost. `early` asks without regard to the cost.
class TrialPace {
 public:
  explicit TrialPace(bool early = false) : early_(early) {}

  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  // A call at this time, which is asked for only where needs_time(). The window to ask for; nothing: not now.
  [[nodiscard]] bool needs_time() {
    ++calls_;
    return calls_ == 1 || calls_ >= next_look_;
  }
  [[nodiscard]] std::optional<std::uint8_t> ask(std::int64_t now_ns) {
    if (calls_ == 1) first_ns_ = now_ns;
    if (calls_ < next_look_) return std::nullopt;
    period_ns_ = (now_ns - first_ns_) / static_cast<std::int64_t>(calls_ - 1);
    const std::uint8_t window_log2 = window_for(period_ns_);
    const std::uint64_t cost = kCallsPerTried * (std::uint64_t{kTrialPairs} << window_log2);
    const std::uint64_t due =
        std::max(cost * (asked_ < kSoon ? asked_ + 1 : std::uint64_t{kSoon} << (asked_ + 1 - kSoon)),
                 early_ ? 0 : calls_in(kTimePerRisk * TrialCost::most_ns(period_ns_ << window_log2)));
    if (calls_ < due) {
      next_look_ = due;
      return std::nullopt;
    }
    ++asked_;
    next_look_ = calls_ + 1;
    return window_log2;
  }
  // So many calls from now on need not be shown one by one, as long as pass() tells of them later.
  [[nodiscard]] std::uint64_t quiet_calls() const {
    return calls_ == 0 ? 0 : next_look_ - std::min(next_look_, calls_ + 1);
  }
  void pass(std::uint64_t calls) { calls_ += calls; }
  // How long calls are apart, on the average, when one was last asked for.
  [[nodiscard]] std::int64_t period_ns() const { return period_ns_; }
  // A trial is over that has taken so much longer than the usual way would have.
  void note_cost(std::int64_t excess_ns) {
    if (excess_ns > 0 && !early_) next_look_ = std::max(next_look_, calls_ + calls_in(kTimePerCost * excess_ns));
  }
  // It cannot be now: the next one is asked for a while later.
  void not_now() {
    --asked_;
    next_look_ = calls_ + kCallsPerTried;
  }

 private:
  static constexpr std::uint64_t kCallsPerTried = 20;
  static constexpr std::int64_t kTimePerRisk = 50;
  static constexpr std::int64_t kTimePerCost = 100;
  static constexpr std::uint32_t kSoon = 4;              // trials before each waits for twice as many calls
  static constexpr std::int64_t kLeastWindow = 500'000;  // nanoseconds

  [[nodiscard]] static std::uint8_t window_for(std::int64_t period_ns) {
    std::uint8_t log2 = 0;
    while (log2 < Trial::kMostWindowLog2 && (period_ns << log2) < kLeastWindow) ++log2;
    return log2;
  }

  [[nodiscard]] std::uint64_t calls_in(std::int64_t time_ns) const {
    return static_cast<std::uint64_t>(time_ns / std::max<std::int64_t>(period_ns_, 1));
  }

  bool early_;
  std::uint64_t calls_ = 0;
  std::uint64_t next_look_ = kCallsPerTried * kTrialPairs;
  std::int64_t first_ns_ = 0;
  std::int64_t period_ns_ = 0;
  std::uint32_t asked_ = 0;
};

}  // namespace outrigger::steer
