// A rank's way through the course of one communicator (protocol/course.hpp): what each of its calls is to do, and where
// the windows of a trial begin and end. Every rank comes to the same, as it knows nothing but the course and the order
// of the communicator's calls.
//
// Thread rule: one thread at a time, as MPI has it for the calls of a communicator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "client/operations/trial_cost.hpp"
#include "protocol/choice.hpp"
#include "protocol/course.hpp"

namespace outrigger::client {

struct Step {
  bool suspended = false;  // native for a while
  std::optional<Way> way;  // nothing: as the built-in table says
  bool for_good = false;   // native, and this kind of call need not be steered any more
  // Of a trial: the window that this call is of, and whether it begins it; or it is the first one after the last.
  std::optional<std::uint32_t> window;
  bool begins = false;
  bool ends = false;
  bool breaks_off = false;  // a trial has been given up in the middle
};

class Steering {
 public:
  // The next call of the communicator.
  // Not inline: callers would put the result together from small pieces and copy it as large ones, which stalls.
  [[nodiscard, gnu::noinline]] Step next(const Course& course, CallKey key) {
    Step step;
    if (const Choice* choice = course.choice(key)) {
      step.way = choice->way;
      step.for_good = choice->for_good;
    }
    step.suspended = course.suspended.has(key.collective());
    step.breaks_off = in_the_middle() && course.trial != trial_;
    if (step.breaks_off) trial_ = Trial{};
    if (course.trial.under_way() && course.trial.key == key) {
      go_on(course.trial, step);
      others_since_ = 0;
    } else {
      ++others_since_;
    }
    return step;
  }
  // The trial that the last step() of one was of.
  [[nodiscard]] const Trial& trial() const { return trial_; }
  // In the middle of one, whose calls have not ceased.
  [[nodiscard]] bool trying() const { return in_the_middle() && others_since_ < kCeased; }

 private:
  [[nodiscard]] bool in_the_middle() const { return trial_.under_way() && calls_ <= trial_.calls(); }
  void go_on(const Trial& trial, Step& step) {
    if (trial != trial_) {
      trial_ = trial;
      calls_ = 0;
    }
    const std::uint32_t total = trial.calls();
    if (calls_ > total) return;
    const std::uint32_t window = calls_ >> trial.window_log2;
    step.ends = calls_ == total;
    if (!step.ends) {
      step.way = trial.other_in(window) ? trial.other : trial.usual;
      step.for_good = false;
      step.window = window;
      step.begins = calls_ == window << trial.window_log2;
    }
    ++calls_;
  }

  static constexpr std::uint64_t kCeased = 1000;  // calls of other kinds in a row

  Trial trial_;
  std::uint32_t calls_ = 0;  // of it, and the one that ends it
  std::uint64_t others_since_ = 0;
};

// When the group's first rank asks for a trial of a kind of call: so seldom that those done in another way than the
// usual one are at most a twentieth of all, with windows long enough to be measured, and never of few calls. And so
// late that it can cost at most a fiftieth of the time since the first call, and that the last one has cost a
// hundredth: a program that is soon over tries nothing. `early` asks without regard to what it may cost.
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

}  // namespace outrigger::client
