#include "mpi/choice/comm_calls.hpp"

#include <algorithm>
#include <limits>

#include "base/clock.hpp"

namespace outrigger::mpi {

steer::Step CommCalls::next(client::Courses courses, const client::Group& group, const steer::DispatchPlan& course,
                            steer::CallKey key) {
  native_ = kFew;
  const steer::Step step = steering_.next(course, key);
  if (step.breaks_off) clock_.stop();
  if (step.begins) clock_.begin(*step.window);
  if (step.ends) courses.tell_times(group, steering_.trial(), clock_.end());
  if (asked_) watch_cost(courses, group, step, key);
  if (step.for_good) retire(key);
  return step;
}

void CommCalls::watch_cost(client::Courses courses, const client::Group& group, const steer::Step& step,
                           steer::CallKey key) {
  if (!step.window && !step.ends) return;
  const std::int64_t now_ns = time_on(CLOCK_MONOTONIC).count();
  const steer::Trial& trial = steering_.trial();
  if (step.ends) {
    cost_.end(trial, now_ns);
  } else if (cost_.too_much(trial, *step.window, step.begins, now_ns)) {
    courses.give_up(group, trial);
  } else {
    return;
  }
  pace_of(key).note_cost(cost_.total_ns());
  asked_ = false;
}

void CommCalls::maybe_ask(client::Courses courses, const client::Group& group,
                          const steer::TrialRequest& without_window, const GroupShape& shape,
                          steer::DecisionFile& learned, bool early) {
  const steer::CallKey key = without_window.key;
  end_spell(key);
  steer::TrialPace& pace = pace_of(key, early);
  const bool needs_time = pace.needs_time();
  if (pace.calls() == kBeforeRecall) {
    const std::optional<steer::Method> way = learned.method(shape, key);
    if (way && *way != without_window.usual) courses.recall(group, key, *way);
  }
  if (!needs_time) return;
  const std::optional<std::uint8_t> window_log2 = pace.ask(time_on(CLOCK_MONOTONIC).count());
  if (!window_log2) return;
  if (steering_.trying()) return pace.not_now();
  steer::TrialRequest request = without_window;
  request.window_log2 = *window_log2;
  asked_ = true;
  cost_.expect(pace.period_ns() << request.window_log2);
  courses.ask_trial(group, request);
}

void CommCalls::begin_spell(client::Courses courses, const client::Group& group, const steer::DispatchPlan& course,
                            steer::CallKey key, bool first, report::NativeReason reason) {
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  if (first) {
    const steer::TrialPace& pace = pace_of(key);
    most = pace.calls() < kBeforeRecall ? 0 : pace.quiet_calls();
  }
  spells_[key.form_index()] = {courses.spell(group, course, most), key, reason};
  if (!key.without_sizes()) passed_[key.form_index()] = {};  // what passed in the last one may be another kind of call
}

void CommCalls::end_spell(steer::CallKey key) {
  Spell& spell = spells_[key.form_index()];
  if (spell.calls.calls() != 0) pace_of(spell.key).pass(spell.calls.calls());
  spell = {};
}

steer::TrialPace& CommCalls::pace_of(steer::CallKey key, bool early) {
  const auto known = std::ranges::find(paces_, key, &Pace::key);
  return known != paces_.end() ? known->pace : paces_.emplace_back(Pace{key, steer::TrialPace(early)}).pace;
}

}  // namespace outrigger::mpi
