#include "service/keeper/service_deaths.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace outrigger::service {
namespace {

using std::chrono::seconds;

constexpr ServiceDeaths::Clock::time_point kBegin{};

TEST(ServiceDeaths, TheThirdInAMinuteIsFollowedByACarefulOneAndTheSeventhByNone) {
  ServiceDeaths deaths;
  for (int death = 1; death <= 6; ++death) {
    EXPECT_TRUE(deaths.note(kBegin + seconds(death))) << death;
    EXPECT_EQ(deaths.careful(), death >= 3) << death;
  }
  EXPECT_FALSE(deaths.note(kBegin + seconds(7)));
  EXPECT_EQ(deaths.of_late(), 7U);
}

TEST(ServiceDeaths, ThoseOfLongAgoDoNotCount) {
  ServiceDeaths deaths;
  for (int death = 1; death <= 100; ++death) {
    EXPECT_TRUE(deaths.note(kBegin + seconds(31 * death))) << death;
    EXPECT_FALSE(deaths.careful()) << death;
  }
}

TEST(ServiceDeaths, CarefulOnesStayAndMayDieAgainAfterAMinute) {
  ServiceDeaths deaths;
  for (int death = 1; death <= 3; ++death) EXPECT_TRUE(deaths.note(kBegin));
  for (int death = 1; death <= 100; ++death) {
    EXPECT_TRUE(deaths.note(kBegin + seconds(61 * death))) << death;
    EXPECT_TRUE(deaths.careful()) << death;
  }
}

}  // namespace
}  // namespace outrigger::service
