// How one communicator's calls follow its dispatch plan on a rank: what each call is to do, and where the windows of a
// trial begin and end. Every rank comes to the same result, as it knows nothing but the plan and the order of calls.
//
// Thread rule: one thread at a time, as MPI has it for the calls of a communicator.
#pragma once

#include <cstdint>
#include <optional>

#include "steer/plan/decision.hpp"
#include "steer/plan/dispatch_plan.hpp"

namespace outrigger::steer {

struct Step {
  bool suspended = false;        // native for a while
  std::optional<Method> method;  // nullopt: by the built-in table
  bool for_good = false;         // native; such calls need not ask again
  // Trials: the window of this call. The call may begin it, or be the first one after the last window.
  std::optional<std::uint32_t> window;
  bool begins = false;
  bool ends = false;
  bool breaks_off = false;  // a trial has been given up in the middle
};

class PlanCursor {
 public:
  // The next call of the communicator.
  // Not inline: callers would put the result together from small pieces and copy it as large ones, which stalls.
  [[nodiscard, gnu::noinline]] Step next(const DispatchPlan& plan, CallKey key) {
    Step step;
    if (const CachedDecision* decision = plan.decision(key)) {
      step.method = decision->method;
      step.for_good = decision->for_good;
    }
    step.suspended = plan.suspended.has(key.collective());
    step.breaks_off = in_the_middle() && plan.trial != trial_;
    if (step.breaks_off) trial_ = Trial{};
    if (plan.trial.under_way() && plan.trial.key == key) {
      go_on(plan.trial, step);
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
      step.method = trial.other_in(window) ? trial.other : trial.usual;
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

}  // namespace outrigger::steer
