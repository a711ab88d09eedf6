// Kinds of calls, plans in words, and the method that a trial speaks for.
#include "steer/plan/decision.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "some_plan.hpp"
#include "steer/plan/dispatch_plan.hpp"

namespace outrigger::steer {
namespace {

TEST(CachedDecision, KindsOfCallsAreToldApartByCollectiveFormAndSize) {
  std::set<CallKey> keys;
  for (const CollectiveRow& row : kCollectives) {
    for (const bool blocking : {false, true}) {
      for (std::uint64_t bytes = 1; bytes <= 8U << 20; bytes *= 2) {
        const CallKey key = CallKey::of(row.collective, blocking, bytes);
        ASSERT_TRUE(key.known());
        EXPECT_EQ(key.collective(), row.collective);
        EXPECT_EQ(key.blocking(), blocking);
        keys.insert(key);
      }
    }
  }
  EXPECT_EQ(keys.size(), CallKey::kCount);
  const auto of = [](std::uint64_t bytes) { return CallKey::of(Collective::ialltoall, false, bytes); };
  EXPECT_EQ(of(4097), of(8192)) << "what the built-in table takes for small is not mixed with what it does not";
  EXPECT_NE(of(8192), of(8193));
  EXPECT_EQ(of(0), of(1));
  EXPECT_EQ(of(5U << 20), of(~std::uint64_t{0}));
}

TEST(CachedDecision, APlanSurvivesItsWordsAndNothingElseDoes) {
  EXPECT_EQ(DispatchPlan::decode(DispatchPlan{}.encode()), DispatchPlan{});
  EXPECT_EQ(DispatchPlan::decode(some_plan().encode()), some_plan());
  std::mt19937_64 random(1);
  std::size_t read = 0;
  for (int i = 0; i < 20'000; ++i) {
    DispatchPlan::Words words = some_plan().encode();
    words[random() % words.size()] ^= 1U << random() % 32;
    const std::optional<DispatchPlan> plan = DispatchPlan::decode(words);
    if (!plan) continue;
    ++read;
    EXPECT_EQ(plan->encode(), words);
    EXPECT_TRUE(plan->trial.valid());
  }
  EXPECT_GT(read, 1'000U);
  EXPECT_LT(read, 19'000U);
}

TEST(CachedDecision, AtTheLimitNoFurtherKindOfCallIsDecided) {
  DispatchPlan plan;
  for (std::uint64_t i = 0; i < kMostDecisions; ++i) {
    EXPECT_TRUE(plan.keep(CachedDecision{CallKey::of(Collective::ibcast, false, 1U << i), Method::native(), false}));
  }
  EXPECT_FALSE(plan.keep(CachedDecision{CallKey::of(Collective::ialltoall, false, 1), Method::native(), false}));
  EXPECT_TRUE(plan.keep(CachedDecision{CallKey::of(Collective::ibcast, false, 1), Method::by(Algorithm::flat), false}));
  EXPECT_EQ(plan.decision(CallKey::of(Collective::ibcast, false, 1))->method, Method::by(Algorithm::flat));
  EXPECT_EQ(DispatchPlan::decode(plan.encode()), plan);
}

TEST(CachedDecision, ATrialUsesBothMethodsInEachPairOfWindowsInNoRegularOrder) {
  std::set<std::uint32_t> orders;
  for (std::uint16_t number = 1; number <= 50; ++number) {
    const Trial trial{number, CallKey::of(Collective::ialltoall, false, 65536), Method::native(),
                      Method::by(Algorithm::ring_pull), 0};
    std::uint32_t order = 0;
    for (std::uint32_t window = 0; window < kTrialWindows; window += 2) {
      EXPECT_NE(trial.other_in(window), trial.other_in(window + 1));
      order = order * 2 + (trial.other_in(window) ? 1 : 0);
    }
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 20U);
}

class Verdicts : public testing::Test {
 protected:
  // Windows have 10,000 ns.
  std::optional<Method> better(Method usual, Method other, std::uint64_t usual_lost, std::uint64_t other_lost) {
    trial_.usual = usual;
    trial_.other = other;
    TrialTimes times;
    for (std::uint32_t window = 0; window < kTrialWindows; ++window) {
      const bool is_other = trial_.other_in(window);
      times.lost_ns[window] = is_other ? other_lost : usual_lost;
      if (window < 2) times.lost_ns[window] = is_other ? 0 : 1'000'000;  // warms up
      if (is_other && window >= 2 && outliers_ > 0) {
        --outliers_;
        times.lost_ns[window] += outlier_;
      }
    }
    times.passed_ns = kTrialWindows * std::uint64_t{10'000};
    return better_method(trial_, times);
  }
  Trial trial_{3, CallKey::of(Collective::ialltoall, false, 65536), {}, {}, 0};
  std::uint32_t outliers_ = 0;
  std::uint64_t outlier_ = 50'000;
};
constexpr Method kPull = Method::by(Algorithm::ring_pull);
constexpr Method kScatter = Method::by(Algorithm::scatter_dest);

TEST_F(Verdicts, ServiceProcessesMustBeWorthIt) {
  EXPECT_EQ(better(Method::native(), kPull, 1000, 500), kPull);
  EXPECT_EQ(better(Method::native(), kPull, 1000, 950), Method::native()) << "half a percent of the time";
  EXPECT_EQ(better(kPull, Method::native(), 500, 1000), kPull);
  EXPECT_EQ(better(kPull, Method::native(), 950, 1000), Method::native());
  EXPECT_EQ(better(kPull, Method::native(), 1000, 500), Method::native());
}

TEST_F(Verdicts, AnotherAlgorithmMustBeBetter) {
  EXPECT_EQ(better(kPull, kScatter, 1000, 500), kScatter);
  EXPECT_EQ(better(kPull, kScatter, 1000, 950), kPull);
  EXPECT_EQ(better(kPull, kScatter, 500, 1000), kPull);
}

TEST_F(Verdicts, OneWindowThatWentWrongDecidesNothingTwoKeepWhatIsUsual) {
  outliers_ = 1;
  EXPECT_EQ(better(Method::native(), kPull, 1000, 500), kPull);
  outliers_ = 2;
  EXPECT_EQ(better(Method::native(), kPull, 1000, 500), Method::native());
  outliers_ = 2;
  EXPECT_EQ(better(kPull, Method::native(), 500, 1000), kPull);
}

TEST_F(Verdicts, ASpoiledTrialTellsNothing) {
  EXPECT_EQ(better_method(Trial{}, TrialTimes{}), std::nullopt);
  TrialTimes times;
  times.passed_ns = 5;
  TrialTimes spoiled;
  times.add(spoiled);
  EXPECT_EQ(times.passed_ns, 0U);
}

}  // namespace
}  // namespace outrigger::steer
