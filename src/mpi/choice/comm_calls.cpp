#include "mpi/choice/comm_calls.hpp"

#include <algorithm>

#include "base/clock.hpp"

namespace outrigger::mpi {

client::Step CommCalls::next(client::Courses courses, const client::Group& group, const Course& course, CallKey key) {
  native_ = kFew;
  const client::Step step = steering_.next(course, key);
  if (step.begins) clock_.begin(*step.begins);
  if (step.ends) courses.tell_times(group, steering_.trial(), clock_.end());
  if (step.for_good) retired_.set(key.value);
  return step;
}

void CommCalls::maybe_ask(client::Courses courses, const client::Group& group, const TrialRequest& without_window,
                          const GroupShape& shape, LearnedChoices& learned) {
  const CallKey key = without_window.key;
  client::TrialPace& pace = pace_of(key);
  const bool needs_time = pace.needs_time();
  if (pace.calls() == kBeforeRecall) {
    const std::optional<Way> way = learned.way(shape, key);
    if (way && *way != without_window.usual) courses.recall(group, key, *way);
  }
  if (!needs_time) return;
  const std::optional<std::uint8_t> window_log2 = pace.ask(time_on(CLOCK_MONOTONIC).count());
  if (!window_log2) return;
  if (steering_.trying()) return pace.not_now();
  TrialRequest request = without_window;
  request.window_log2 = *window_log2;
  courses.ask_trial(group, request);
}

client::TrialPace& CommCalls::pace_of(CallKey key) {
  const auto known = std::ranges::find(paces_, key, &Pace::key);
  return known != paces_.end() ? known->pace : paces_.emplace_back(Pace{key, {}}).pace;
}

}  // namespace outrigger::mpi
