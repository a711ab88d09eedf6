#include "steer/rank/trial_runner.hpp"

#include <algorithm>
#include <optional>

#include "base/clock.hpp"

namespace outrigger::steer {

Step TrialRunner::next(const DispatchPort& port, const DispatchPlan& plan, CallKey key) {
  const Step step = cursor_.next(plan, key);
  if (step.breaks_off) clock_.stop();
  if (step.begins) clock_.begin(*step.window);
  if (step.ends) {
    port.entry()->put(clock_.end());
    port.send({.kind = SlotRequest::measured, .trial = cursor_.trial().number});
  }
  if (asked_) watch_cost(port, step, key);
  return step;
}

void TrialRunner::watch_cost(const DispatchPort& port, const Step& step, CallKey key) {
  if (!step.window && !step.ends) return;
  const std::int64_t now_ns = time_on(CLOCK_MONOTONIC).count();
  const Trial& trial = cursor_.trial();
  if (step.ends) {
    cost_.end(trial, now_ns);
  } else if (cost_.too_much(trial, *step.window, step.begins, now_ns)) {
    port.send({.kind = SlotRequest::give_up, .trial = trial.number});
  } else {
    return;
  }
  pace_of(key).note_cost(cost_.total_ns());
  asked_ = false;
}

void TrialRunner::maybe_ask(const DispatchPort& port, const TrialRequest& without_window, const GroupShape& shape,
                            DecisionFile& decisions, bool early) {
  const CallKey key = without_window.key;
  TrialPace& pace = pace_of(key, early);
  const bool needs_time = pace.needs_time();
  if (pace.calls() == kBeforeRecall) {
    const std::optional<Method> method = decisions.method(shape, key);
    const Algorithm any = default_algorithm(key.collective());
    if (method && *method != without_window.usual) {
      port.send({.kind = SlotRequest::recall,
                 .algorithm = static_cast<std::uint16_t>(any),
                 .request = TrialRequest{key, *method, any, 0}.encode()});
    }
  }
  if (!needs_time) return;
  const std::optional<std::uint8_t> window_log2 = pace.ask(time_on(CLOCK_MONOTONIC).count());
  if (!window_log2) return;
  if (cursor_.trying()) return pace.not_now();
  TrialRequest request = without_window;
  request.window_log2 = *window_log2;
  asked_ = true;
  cost_.expect(pace.period_ns() << request.window_log2);
  port.send({.kind = SlotRequest::ask_trial,
             .algorithm = static_cast<std::uint16_t>(request.if_offloaded),
             .request = request.encode()});
}

std::uint64_t TrialRunner::quiet_calls(CallKey key) {
  const TrialPace& pace = pace_of(key);
  return pace.calls() < kBeforeRecall ? 0 : pace.quiet_calls();
}

TrialPace& TrialRunner::pace_of(CallKey key, bool early) {
  const auto known = std::ranges::find(paces_, key, &Pace::key);
  return known != paces_.end() ? known->pace : paces_.emplace_back(Pace{key, TrialPace(early)}).pace;
}

}  // namespace outrigger::steer
