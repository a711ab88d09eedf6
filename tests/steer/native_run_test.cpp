// Calls that are native until the plan of their communicator changes.
#include "steer/rank/native_run.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "steer/rank/trial_pace.hpp"

namespace outrigger::steer {
namespace {

struct NativeRunTest : testing::Test {
  std::atomic<bool> inert = false;
  std::unique_ptr<PlanEntry> entry = std::make_unique<PlanEntry>();

  [[nodiscard]] std::uint64_t counted() const { return entry->calls.load(); }
};

TEST_F(NativeRunTest, CountsEachCallAndEndsAfterAsManyAsWereAllowed) {
  NativeRun run(inert, *entry, 0, 3);
  for (std::uint64_t call = 1; call <= 3; ++call) {
    EXPECT_TRUE(run.next().native);
    EXPECT_EQ(counted(), call);
  }
  const NativeRun::Call after = run.next();
  EXPECT_FALSE(after.native || after.counted);
  EXPECT_EQ(counted(), 3U) << "the plan counts it";
  EXPECT_EQ(run.calls(), 3U);
}

TEST_F(NativeRunTest, ACallThatIsHeldIsCountedAndNotNative) {
  NativeRun run(inert, *entry, 0, 100);
  EXPECT_TRUE(run.next().native);
  entry->held.store(1);
  const NativeRun::Call call = run.next();
  EXPECT_FALSE(call.native);
  EXPECT_TRUE(call.counted);
  EXPECT_EQ(counted(), 2U);
  entry->held.store(0);
  EXPECT_FALSE(run.next().native) << "what has been held may have changed";
  EXPECT_EQ(run.calls(), 1U);
}

TEST_F(NativeRunTest, APlanThatHasChangedEndsIt) {
  NativeRun run(inert, *entry, 0, 100);
  EXPECT_TRUE(run.next().native);
  entry->change(PlanChange{});
  const NativeRun::Call call = run.next();
  EXPECT_FALSE(call.native);
  EXPECT_TRUE(call.counted);
  EXPECT_EQ(counted(), 2U);
}

TEST_F(NativeRunTest, AForkedChildTouchesNothing) {
  NativeRun run(inert, *entry, 0, 100);
  inert = true;
  const NativeRun::Call call = run.next();
  EXPECT_FALSE(call.native || call.counted);
  EXPECT_EQ(counted(), 0U);
}

TEST(NativeRun, AnEmptyRunIsOver) {
  NativeRun none;
  const NativeRun::Call call = none.next();
  EXPECT_FALSE(call.native || call.counted);
}

// Trials are asked for at the same calls, whether the pace is shown each call or told of those of runs.
TEST(TrialPace, CallsOfRunsCountAsOthers) {
  constexpr std::int64_t kPeriod = 20'000;
  TrialPace one_by_one;
  TrialPace by_runs;
  std::uint64_t quiet = 0;
  std::uint64_t passed = 0;
  int asked = 0;
  for (std::int64_t call = 1; call <= 2'000'000; ++call) {
    const bool expected = one_by_one.needs_time() && one_by_one.ask(call * kPeriod).has_value();
    if (quiet > 0) {
      --quiet;
      ++passed;
      EXPECT_FALSE(expected);
      continue;
    }
    by_runs.pass(passed);
    passed = 0;
    const bool asks = by_runs.needs_time() && by_runs.ask(call * kPeriod).has_value();
    EXPECT_EQ(asks, expected);
    asked += asks ? 1 : 0;
    quiet = by_runs.quiet_calls();
  }
  EXPECT_GT(asked, 1);
}

}  // namespace
}  // namespace outrigger::steer
