// Calls that are native until their communicator's course changes.
#include "client/operations/native_spell.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "client/operations/steering.hpp"

namespace outrigger::client {
namespace {

struct NativeSpellTest : testing::Test {
  EndpointLock lock;
  std::unique_ptr<CourseEntry> entry = [] {
    auto cleared = std::make_unique<CourseEntry>();
    cleared->clear();
    return cleared;
  }();

  [[nodiscard]] std::uint64_t counted() const { return entry->calls.load(); }
};

TEST_F(NativeSpellTest, CountsEachCallAndEndsAfterAsManyAsWereAllowed) {
  NativeSpell spell(lock, *entry, 0, 3);
  for (std::uint64_t call = 1; call <= 3; ++call) {
    EXPECT_TRUE(spell.next().native);
    EXPECT_EQ(counted(), call);
  }
  const NativeSpell::Call after = spell.next();
  EXPECT_FALSE(after.native || after.counted);
  EXPECT_EQ(counted(), 3U) << "the course counts it";
  EXPECT_EQ(spell.calls(), 3U);
}

TEST_F(NativeSpellTest, ACallThatIsHeldIsCountedAndNotNative) {
  NativeSpell spell(lock, *entry, 0, 100);
  EXPECT_TRUE(spell.next().native);
  entry->held.store(1);
  const NativeSpell::Call call = spell.next();
  EXPECT_FALSE(call.native);
  EXPECT_TRUE(call.counted);
  EXPECT_EQ(counted(), 2U);
  entry->held.store(0);
  EXPECT_FALSE(spell.next().native) << "what has been held may have changed";
  EXPECT_EQ(spell.calls(), 1U);
}

TEST_F(NativeSpellTest, ACourseThatHasChangedEndsIt) {
  NativeSpell spell(lock, *entry, 0, 100);
  EXPECT_TRUE(spell.next().native);
  entry->change(CoursePlan{});
  const NativeSpell::Call call = spell.next();
  EXPECT_FALSE(call.native);
  EXPECT_TRUE(call.counted);
  EXPECT_EQ(counted(), 2U);
}

TEST_F(NativeSpellTest, AForkedChildTouchesNothing) {
  NativeSpell spell(lock, *entry, 0, 100);
  lock.inert = true;
  const NativeSpell::Call call = spell.next();
  EXPECT_FALSE(call.native || call.counted);
  EXPECT_EQ(counted(), 0U);
}

TEST(NativeSpell, NothingIsNativeByNoSpell) {
  NativeSpell none;
  const NativeSpell::Call call = none.next();
  EXPECT_FALSE(call.native || call.counted);
}

// Whether the pace is shown each call or told of those of spells, trials are asked for at the same calls.
TEST(TrialPace, CallsOfSpellsCountAsOthers) {
  constexpr std::int64_t kPeriod = 20'000;
  TrialPace one_by_one;
  TrialPace by_spells;
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
    by_spells.pass(passed);
    passed = 0;
    const bool asks = by_spells.needs_time() && by_spells.ask(call * kPeriod).has_value();
    EXPECT_EQ(asks, expected);
    asked += asks ? 1 : 0;
    quiet = by_spells.quiet_calls();
  }
  EXPECT_GT(asked, 1);
}

}  // namespace
}  // namespace outrigger::client
