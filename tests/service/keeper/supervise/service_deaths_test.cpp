#include "service/keeper/supervise/service_deaths.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace outrigger::service {
namespace {

using std::chrono::seconds;

constexpr ServiceDeaths::Clock::time_point kBegin{};

OperationId operation(std::uint64_t sequence) {
  return {GroupId{7, 8}, sequence};
}

TEST(ServiceDeaths, TheThirdAtAnOperationIsFollowedByACarefulOneAndTheSeventhByNone) {
  ServiceDeaths deaths;
  for (int death = 1; death <= 6; ++death) {
    EXPECT_TRUE(deaths.note(0, operation(5), kBegin + seconds(death))) << death;
    EXPECT_EQ(deaths.careful(), death >= 3) << death;
  }
  EXPECT_FALSE(deaths.note(0, operation(5), kBegin + seconds(7)));
  EXPECT_EQ(deaths.of_late(0), 7U);
}

TEST(ServiceDeaths, ThoseThatHaveTakenNothingDieAtTheSame) {
  ServiceDeaths deaths;
  for (int death = 1; death <= 3; ++death) EXPECT_TRUE(deaths.note(0, std::nullopt, kBegin));
  EXPECT_TRUE(deaths.careful());
}

TEST(ServiceDeaths, OfThoseAtDifferentOperationsTheSixthIsFollowedByACarefulOneAndTheTenthByNone) {
  ServiceDeaths deaths;
  for (unsigned death = 1; death <= 9; ++death) {
    EXPECT_TRUE(deaths.note(0, operation(death), kBegin + seconds(death))) << death;
    EXPECT_EQ(deaths.careful(), death >= 6) << death;
  }
  EXPECT_FALSE(deaths.note(0, operation(10), kBegin + seconds(10)));
}

TEST(ServiceDeaths, AllThatDieAtOnceHaveDiedOnce) {
  ServiceDeaths deaths;
  for (int time = 1; time <= 2; ++time) {
    for (unsigned sp = 0; sp < 16; ++sp) EXPECT_TRUE(deaths.note(sp, operation(5), kBegin));
    EXPECT_FALSE(deaths.careful());
  }
}

TEST(ServiceDeaths, CarefulIsTheWholeNode) {
  ServiceDeaths deaths;
  for (int death = 1; death <= 3; ++death) EXPECT_TRUE(deaths.note(0, operation(5), kBegin));
  for (int death = 1; death <= 3; ++death) EXPECT_TRUE(deaths.note(1, operation(5), kBegin)) << death;
  EXPECT_FALSE(deaths.note(1, operation(5), kBegin));
}

TEST(ServiceDeaths, ThoseOfLongAgoDoNotCount) {
  ServiceDeaths deaths;
  for (int death = 1; death <= 100; ++death) {
    EXPECT_TRUE(deaths.note(0, operation(5), kBegin + seconds(31 * death))) << death;
    EXPECT_FALSE(deaths.careful()) << death;
  }
}

TEST(ServiceDeaths, CarefulOnesStayAndMayDieAgainAfterAMinute) {
  ServiceDeaths deaths;
  for (int death = 1; death <= 3; ++death) EXPECT_TRUE(deaths.note(0, operation(5), kBegin));
  for (int death = 1; death <= 100; ++death) {
    EXPECT_TRUE(deaths.note(0, operation(5), kBegin + seconds(61 * death))) << death;
    EXPECT_TRUE(deaths.careful()) << death;
  }
}

}  // namespace
}  // namespace outrigger::service
