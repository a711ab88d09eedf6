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
  Pace& kind = pace_of(without_window.key);
  if (kind.calls < kBeforeRecall && ++kind.calls == kBeforeRecall) {
    const std::optional<Way> way = learned.way(shape, kind.key);
    if (way && *way != without_window.usual) courses.recall(group, kind.key, *way);
  }
  if (!kind.pace.needs_time()) return;
  const std::optional<std::uint8_t> window_log2 = kind.pace.ask(time_on(CLOCK_MONOTONIC).count());
  if (!window_log2) return;
  if (steering_.trying()) return kind.pace.not_now();
  TrialRequest request = without_window;
  request.window_log2 = *window_log2;
  courses.ask_trial(group, request);
}

CommCalls::Pace& CommCalls::pace_of(CallKey key) {
  const auto known = std::ranges::find(paces_, key, &Pace::key);
  return known != paces_.end() ? *known : paces_.emplace_back(Pace{key, {}});
}

}  // namespace outrigger::mpi
