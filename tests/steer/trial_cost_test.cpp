// When a trial is given up.
#include "steer/rank/trial_cost.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace outrigger::steer {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

// Goes through a trial whose calls take so long by their way. The calls of the other way until it is given up;
// nothing: it is not.
std::optional<int> other_calls_until_given_up(TrialCost& cost, const Trial& trial,
                                              const std::function<std::int64_t(std::uint32_t window)>& call_ns) {
  int others = 0;
  std::int64_t now_ns = 1000 * kMillisecond;
  for (std::uint32_t call = 0; call < trial.calls(); ++call) {
    const std::uint32_t window = call >> trial.window_log2;
    if (cost.too_much(trial, window, call == window << trial.window_log2, now_ns)) return others;
    if (trial.other_in(window)) ++others;
    now_ns += call_ns(window);
  }
  cost.end(trial, now_ns);
  return std::nullopt;
}

Trial small_trial(std::uint16_t number, std::uint8_t window_log2) {
  return {number, CallKey::of(Collective::ialltoall, false, 8), Method::native(), Method::by(Algorithm::ring_pull),
          window_log2};
}

TEST(TrialCost, AWayThatIsAsFastIsTriedToTheEnd) {
  for (std::uint16_t number = 1; number <= 20; ++number) {
    const Trial trial = small_trial(number, 5);
    TrialCost cost;
    cost.expect(16'000 * 32);
    const auto call_ns = [&](std::uint32_t window) { return trial.other_in(window) ? 18'000 : 16'000; };
    EXPECT_EQ(other_calls_until_given_up(cost, trial, call_ns), std::nullopt);
    EXPECT_EQ(cost.total_ns(), 2'000 * 32 * std::int64_t{kTrialPairs});
  }
}

TEST(TrialCost, OneThatIsManyTimesSlowerIsGivenUpWithinTheFirstWindows) {
  for (std::uint16_t number = 1; number <= 20; ++number) {
    const Trial trial = small_trial(number, 5);
    TrialCost cost;
    cost.expect(16'000 * 32);
    const auto call_ns = [&](std::uint32_t window) { return trial.other_in(window) ? 1'000'000 : 16'000; };
    const std::optional<int> others = other_calls_until_given_up(cost, trial, call_ns);
    ASSERT_TRUE(others.has_value());
    EXPECT_LE(*others, 12) << "10 ms";
    EXPECT_GE(cost.total_ns(), 10 * kMillisecond);
    EXPECT_LE(cost.total_ns(), 12 * kMillisecond);
    EXPECT_FALSE(cost.too_much(trial, 1, false, 5000 * kMillisecond)) << "once";
  }
}

TEST(TrialCost, WhatTheFirstPairCostsDoesNotCountLater) {
  const Trial trial = small_trial(1, 0);
  TrialCost cost;
  cost.expect(kMillisecond);
  const auto call_ns = [&](std::uint32_t window) {
    return trial.other_in(window) && window < 2 ? 9 * kMillisecond : kMillisecond;
  };
  EXPECT_EQ(other_calls_until_given_up(cost, trial, call_ns), std::nullopt);
  EXPECT_EQ(cost.total_ns(), 8 * kMillisecond);
}

TEST(TrialCost, LongWindowsMayCostTwoOfThem) {
  const Trial trial = small_trial(3, 0);
  TrialCost cost;
  cost.expect(10 * kMillisecond);
  const auto call_ns = [&](std::uint32_t window) { return (trial.other_in(window) ? 16 : 10) * kMillisecond; };
  const std::optional<int> others = other_calls_until_given_up(cost, trial, call_ns);
  ASSERT_TRUE(others.has_value());
  EXPECT_EQ(*others, 5) << "the first one warms up, then four of 6 ms";
}

TEST(TrialCost, NoTrialCostsMoreThanItSays) {
  for (std::uint16_t number = 1; number <= 20; ++number) {
    for (const std::int64_t usual_ns : {kMillisecond / 2, 4 * kMillisecond}) {
      const Trial trial = small_trial(number, 4);
      const auto first_pair_slow = [&](std::uint32_t window) {
        if (!trial.other_in(window)) return usual_ns / 16;
        return usual_ns / 16 * (window < 2 ? 4 : 2);
      };
      TrialCost cost;
      cost.expect(usual_ns);
      static_cast<void>(other_calls_until_given_up(cost, trial, first_pair_slow));
      EXPECT_GT(cost.total_ns(), 0);
      EXPECT_LE(cost.total_ns(), TrialCost::most_ns(usual_ns) + usual_ns / 4) << "and the last call";
    }
  }
}

TEST(TrialCost, WhoHasNotAskedDoesNotWatch) {
  TrialCost cost;
  const auto call_ns = [](std::uint32_t) { return 100 * kMillisecond; };
  EXPECT_EQ(other_calls_until_given_up(cost, small_trial(1, 0), call_ns), std::nullopt);
  EXPECT_EQ(cost.total_ns(), 0);
}

}  // namespace
}  // namespace outrigger::steer
