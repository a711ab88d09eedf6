// A rank's way through its communicator's plan, and when trials are asked for.
#include "steer/rank/plan_cursor.hpp"

#include <gtest/gtest.h>

#include "steer/rank/trial_pace.hpp"

namespace outrigger::steer {
namespace {

constexpr CallKey kKey = CallKey::of(Collective::ialltoall, false, 65536);
constexpr CallKey kOtherKey = CallKey::of(Collective::ibcast, false, 65536);

DispatchPlan trial_of(std::uint16_t number, std::uint8_t window_log2) {
  DispatchPlan plan;
  plan.trial = Trial{number, kKey, Method::native(), Method::by(Algorithm::ring_pull), window_log2};
  return plan;
}

TEST(PlanCursor, GoesThroughTheWindowsOfATrialOnceAndOtherCallsDoNotMatter) {
  PlanCursor cursor;
  const DispatchPlan plan = trial_of(1, 2);
  std::uint32_t begun = 0;
  for (std::uint32_t call = 0; call < plan.trial.calls(); ++call) {
    EXPECT_EQ(cursor.next(plan, kOtherKey).method, std::nullopt);
    const Step step = cursor.next(plan, kKey);
    EXPECT_EQ(step.method, plan.trial.other_in(call / 4) ? plan.trial.other : plan.trial.usual);
    EXPECT_EQ(step.window, call / 4);
    EXPECT_EQ(step.begins, call % 4 == 0);
    begun += step.begins ? 1 : 0;
    EXPECT_FALSE(step.ends);
    EXPECT_TRUE(cursor.trying());
  }
  EXPECT_EQ(begun, kTrialWindows);
  EXPECT_TRUE(cursor.next(plan, kKey).ends);
  EXPECT_FALSE(cursor.trying());
  for (int call = 0; call < 100; ++call) {
    const Step step = cursor.next(plan, kKey);
    EXPECT_FALSE(step.ends || step.begins || step.window || step.method);
  }
  EXPECT_FALSE(cursor.next(DispatchPlan{}, kKey).breaks_off);
  EXPECT_EQ(*cursor.next(trial_of(2, 2), kKey).window, 0U) << "the next one begins anew";
}

TEST(PlanCursor, ATrialWhoseCallsHaveCeasedHoldsUpNoOther) {
  PlanCursor cursor;
  static_cast<void>(cursor.next(trial_of(1, 0), kKey));
  for (int call = 0; call < 999; ++call) static_cast<void>(cursor.next(trial_of(1, 0), kOtherKey));
  EXPECT_TRUE(cursor.trying());
  static_cast<void>(cursor.next(trial_of(1, 0), kOtherKey));
  EXPECT_FALSE(cursor.trying());
}

TEST(PlanCursor, ATrialThatIsGivenUpBreaksOffOnceWhateverIsCalled) {
  for (const CallKey key : {kKey, kOtherKey}) {
    PlanCursor cursor;
    for (int call = 0; call < 5; ++call) static_cast<void>(cursor.next(trial_of(1, 1), kKey));
    const Step step = cursor.next(DispatchPlan{}, key);
    EXPECT_TRUE(step.breaks_off);
    EXPECT_FALSE(step.ends || step.begins || step.window || step.method);
    EXPECT_FALSE(cursor.trying());
    EXPECT_FALSE(cursor.next(DispatchPlan{}, key).breaks_off);
    EXPECT_TRUE(cursor.next(trial_of(2, 1), kKey).begins);
  }
}

TEST(PlanCursor, WhatIsChosenHoldsWhileCallsAreSuspendedToo) {
  PlanCursor cursor;
  DispatchPlan plan;
  plan.keep(CachedDecision{kKey, Method::native(), true});
  EXPECT_TRUE(cursor.next(plan, kKey).for_good);
  plan.suspended.busy = Suspended::bit(Collective::ibcast);
  EXPECT_TRUE(cursor.next(plan, kOtherKey).suspended);
  EXPECT_FALSE(cursor.next(plan, kKey).suspended);
}

// At most a twentieth of the calls is done by another method than the usual one.
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
}  // namespace outrigger::steer
