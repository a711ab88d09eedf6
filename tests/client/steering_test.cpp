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
    EXPECT_EQ(step.begins.has_value(), call % 4 == 0);
    if (step.begins) {
      EXPECT_EQ(*step.begins, begun++);
    }
    EXPECT_FALSE(step.ends);
    EXPECT_TRUE(steering.trying());
  }
  EXPECT_TRUE(steering.next(course, kKey).ends);
  EXPECT_FALSE(steering.trying());
  for (int call = 0; call < 100; ++call) {
    const Step step = steering.next(course, kKey);
    EXPECT_FALSE(step.ends || step.begins || step.way);
  }
  EXPECT_EQ(*steering.next(trial_of(2, 2), kKey).begins, 0U) << "the next one begins anew";
}

TEST(Steering, ATrialWhoseCallsHaveCeasedHoldsUpNoOther) {
  Steering steering;
  static_cast<void>(steering.next(trial_of(1, 0), kKey));
  for (int call = 0; call < 999; ++call) static_cast<void>(steering.next(trial_of(1, 0), kOtherKey));
  EXPECT_TRUE(steering.trying());
  static_cast<void>(steering.next(trial_of(1, 0), kOtherKey));
  EXPECT_FALSE(steering.trying());
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
    TrialPace pace;
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

TEST(TrialPace, WhatCannotBeNowIsAskedForALittleLater) {
  TrialPace pace;
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
