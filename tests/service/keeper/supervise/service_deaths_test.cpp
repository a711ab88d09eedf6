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

TEST(ServiceDeaths, ThirdDeathInAnOperationStartsDegradedModeAndTheSeventhEndsTheJob) {
  ServiceDeaths deaths;
  for (int death = 1; death <= 6; ++death) {
    EXPECT_TRUE(deaths.note(0, operation(5), kBegin + seconds(death))) << death;
    EXPECT_EQ(deaths.degraded(), death >= 3) << death;
  }
  EXPECT_FALSE(deaths.note(0, operation(5), kBegin + seconds(7)));
  EXPECT_EQ(deaths.of_late(0), 7U);
}

TEST(ServiceDeaths, DeathsWithoutAnOperationCountAsOneOperation) {
  ServiceDeaths deaths;
  for (int death = 1; death <= 3; ++death) EXPECT_TRUE(deaths.note(0, std::nullopt, kBegin));
  EXPECT_TRUE(deaths.degraded());
}

TEST(ServiceDeaths, SixthDeathInAnyOperationStartsDegradedModeAndTheTenthEndsTheJob) {
  ServiceDeaths deaths;
  for (unsigned death = 1; death <= 9; ++death) {
    EXPECT_TRUE(deaths.note(0, operation(death), kBegin + seconds(death))) << death;
    EXPECT_EQ(deaths.degraded(), death >= 6) << death;
  }
  EXPECT_FALSE(deaths.note(0, operation(10), kBegin + seconds(10)));
}

TEST(ServiceDeaths, DeathsInDifferentPlacesCountSeparately) {
  ServiceDeaths deaths;
  for (int time = 1; time <= 2; ++time) {
    for (unsigned sp = 0; sp < 16; ++sp) EXPECT_TRUE(deaths.note(sp, operation(5), kBegin));
    EXPECT_FALSE(deaths.degraded());
  }
}

TEST(ServiceDeaths, DegradedModeIsForTheWholeNode) {
  ServiceDeaths deaths;
  for (int death = 1; death <= 3; ++death) EXPECT_TRUE(deaths.note(0, operation(5), kBegin));
  for (int death = 1; death <= 3; ++death) EXPECT_TRUE(deaths.note(1, operation(5), kBegin)) << death;
  EXPECT_FALSE(deaths.note(1, operation(5), kBegin));
}

TEST(ServiceDeaths, OldDeathsDoNotCount) {
  ServiceDeaths deaths;
  for (int death = 1; death <= 100; ++death) {
    EXPECT_TRUE(deaths.note(0, operation(5), kBegin + seconds(31 * death))) << death;
    EXPECT_FALSE(deaths.degraded()) << death;
  }
}

TEST(ServiceDeaths, DegradedModeStaysAndDeathsExpireAfterAMinute) {
  ServiceDeaths deaths;
  for (int death = 1; death <= 3; ++death) EXPECT_TRUE(deaths.note(0, operation(5), kBegin));
  for (int death = 1; death <= 100; ++death) {
    EXPECT_TRUE(deaths.note(0, operation(5), kBegin + seconds(61 * death))) << death;
    EXPECT_TRUE(deaths.degraded()) << death;
  }
}

}  // namespace
}  // namespace outrigger::service
