// A rank's way through its communicator's course, and when trials are asked for.
#include "client/operations/steering.hpp"

#include <gtest/gtest.h>

namespace outrigger::client {
namespace {

constexpr CallKey kKey = CallKey::of(Collective::ialltoall, false, 65536);
constexpr CallKey kOtherKey = CallKey::of(Collective::ibcast, false, 65536);

Course trial_of(std::uint16_t number, std::uint8_t window_log2) {
  Course course;
  course.trial = Trial{number, kKey, Way::native(), Way::by(Algorithm::ring_pull), window_log2};
  return course;
}

TEST(Steering, GoesThroughTheWindowsOfATrialOnceAndOtherCallsDoNotMatter) {
  Steering steering;
  const Course course = trial_of(1, 2);
  std::uint32_t begun = 0;
  for (std::uint32_t call = 0; call < course.trial.calls(); ++call) {
    EXPECT_EQ(steering.next(course, kOtherKey).way, std::nullopt);
    const Step step = steering.next(course, kKey);
    EXPECT_EQ(step.way, course.trial.other_in(call / 4) ? course.trial.other : course.trial.usual);
    EXPECT_EQ(step.window, call / 4);
    EXPECT_EQ(step.begins, call % 4 == 0);
    begun += step.begins ? 1 : 0;
    EXPECT_FALSE(step.ends);
    EXPECT_TRUE(steering.trying());
  }
  EXPECT_EQ(begun, kTrialWindows);
  EXPECT_TRUE(steering.next(course, kKey).ends);
  EXPECT_FALSE(steering.trying());
  for (int call = 0; call < 100; ++call) {
    const Step step = steering.next(course, kKey);
    EXPECT_FALSE(step.ends || step.begins || step.window || step.way);
  }
  EXPECT_FALSE(steering.next(Course{}, kKey).breaks_off);
  EXPECT_EQ(*steering.next(trial_of(2, 2), kKey).window, 0U) << "the next one begins anew";
}

TEST(Steering, ATrialWhoseCallsHaveCeasedHoldsUpNoOther) {
  Steering steering;
  static_cast<void>(steering.next(trial_of(1, 0), kKey));
  for (int call = 0; call < 999; ++call) static_cast<void>(steering.next(trial_of(1, 0), kOtherKey));
  EXPECT_TRUE(steering.trying());
  static_cast<void>(steering.next(trial_of(1, 0), kOtherKey));
  EXPECT_FALSE(steering.trying());
}

TEST(Steering, ATrialThatIsGivenUpBreaksOffOnceWhateverIsCalled) {
  for (const CallKey key : {kKey, kOtherKey}) {
    Steering steering;
    for (int call = 0; call < 5; ++call) static_cast<void>(steering.next(trial_of(1, 1), kKey));
    const Step step = steering.next(Course{}, key);
    EXPECT_TRUE(step.breaks_off);
    EXPECT_FALSE(step.ends || step.begins || step.window || step.way);
    EXPECT_FALSE(steering.trying());
    EXPECT_FALSE(steering.next(Course{}, key).breaks_off);
    EXPECT_TRUE(steering.next(trial_of(2, 1), kKey).begins);
  }
}

TEST(Steering, WhatIsChosenHoldsWhileCallsAreSuspendedToo) {
  Steering steering;
  Course course;
  course.choose(Choice{kKey, Way::native(), true});
  EXPECT_TRUE(steering.next(course, kKey).for_good);
  course.suspended.busy = Suspended::bit(Collective::ibcast);
  EXPECT_TRUE(steering.next(course, kOtherKey).suspended);
  EXPECT_FALSE(steering.next(course, kKey).suspended);
}

// What is done in another way than the usual one is at most a twentieth.
TEST(TrialPace, TrialsAreFewOfTheCallsAndNoneOfFew) {
  for (const std::int64_t period_ns : {2'000, 25'000, 400'000, 5'000'000}) {
    TrialPace pace(true);
    std::uint64_t tried = 0;
    std::uint64_t trials = 0;
    for (std::uint64_t call = 1; call <= 1'000'000; ++call) {
      if (!pace.needs_time()) continue;
      const auto window_log2 = pace.ask(static_cast<std::int64_t>(call) * period_ns);
      if (!window_log2) continue;
      EXPECT_GE(period_ns << *window_log2, 500'000);
      tried += std::uint64_t{kTrialPairs} << *window_log2;
      ++trials;
      EXPECT_LE(tried * 20, call) << period_ns;
      EXPECT_GE(call, 140U);
    }
    EXPECT_GE(trials, 4U) << period_ns;
    EXPECT_LE(trials, 20U) << period_ns;
  }
}

// Whatever trials cost beyond the first one is a hundredth of the time.
TEST(TrialPace, WhatHasCostMuchIsTriedMuchLater) {
  constexpr std::int64_t kPeriod_ns = 25'000;
  constexpr std::int64_t kCost_ns = 20'000'000;
  TrialPace pace;
  std::int64_t cost_ns = -kCost_ns;  // the first is free
  int trials = 0;
  for (std::int64_t call = 1; call <= 1'000'000; ++call) {
    const std::int64_t now_ns = call * kPeriod_ns;
    if (!pace.needs_time() || !pace.ask(now_ns)) continue;
    EXPECT_EQ(pace.period_ns(), kPeriod_ns);
    EXPECT_LE(cost_ns * 100, now_ns);
    cost_ns += kCost_ns;
    ++trials;
    pace.note_cost(kCost_ns);
  }
  EXPECT_GE(trials, 3);
}

// Even where a trial turns out to be as dear as can be.
TEST(TrialPace, ATrialMayCostAFiftiethOfTheTime) {
  for (const std::int64_t period_ns : {2'000, 25'000, 400'000, 5'000'000}) {
    TrialPace pace;
    std::int64_t cost_ns = 0;
    int trials = 0;
    for (std::int64_t call = 1; call <= 3'000'000; ++call) {
      if (!pace.needs_time()) continue;
      const auto window_log2 = pace.ask(call * period_ns);
      if (!window_log2) continue;
      const std::int64_t most_ns = TrialCost::most_ns(period_ns << *window_log2);
      cost_ns += most_ns;
      ++trials;
      EXPECT_LE(cost_ns * 49, call * period_ns) << period_ns;
      pace.note_cost(most_ns);
    }
    EXPECT_GE(trials, 2) << period_ns;
  }
}

TEST(TrialPace, WhatCannotBeNowIsAskedForALittleLater) {
  TrialPace pace(true);
  auto call = [&, now = std::int64_t{0}]() mutable {
    now += 2'000'000;
    return pace.needs_time() && pace.ask(now).has_value();
  };
  int calls = 1;
  while (!call()) ++calls;
  EXPECT_EQ(calls, 140);
  pace.not_now();
  for (calls = 1; !call();) ++calls;
  EXPECT_EQ(calls, 20);
}

}  // namespace
}  // namespace outrigger::client
