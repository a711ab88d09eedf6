#include "base/traffic_pace.hpp"

#include <gtest/gtest.h>

namespace outrigger {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

constexpr nanoseconds kNothing = 300ns;
constexpr nanoseconds kMessage = 20us;
constexpr nanoseconds kAtMost = 1ms;

// Looks until the pace asks for a sleep, and returns how often.
std::uint32_t looks_before_sleep(TrafficPace& pace, nanoseconds each) {
  std::uint32_t looks = 0;
  do {
    pace.looked(each);
    ++looks;
  } while (pace.looks_on());
  return looks;
}

TEST(TrafficPace, LooksForNothingAreFew) {
  TrafficPace pace;
  for (int sleeps = 0; sleeps < 100; ++sleeps) {
    EXPECT_EQ(looks_before_sleep(pace, kNothing), TrafficPace::kLooks);
    EXPECT_EQ(pace.sleep(kAtMost), kAtMost);
    pace.slept();
  }
}

TEST(TrafficPace, SlowLooksForNothingAreFewer) {
  TrafficPace slow;
  EXPECT_EQ(looks_before_sleep(slow, 8us), 3U);
  TrafficPace slower;
  EXPECT_EQ(looks_before_sleep(slower, 50us), 1U);
}

TEST(TrafficPace, OneLookForNothingIsEnoughWhereOthersWantTheCore) {
  TrafficPace pace;
  pace.looked(kNothing);
  EXPECT_FALSE(pace.looks_on(true));
  pace.looked(kMessage);
  EXPECT_TRUE(pace.looks_on(true));
  pace.looked(kNothing);
  EXPECT_FALSE(pace.looks_on(true));
}

TEST(TrafficPace, EachFindIsFollowedByLooks) {
  TrafficPace pace;
  (void)looks_before_sleep(pace, kNothing);
  pace.slept();
  pace.looked(kMessage);
  for (std::uint32_t look = 1; look < TrafficPace::kLooks; ++look) pace.looked(kNothing);
  EXPECT_TRUE(pace.looks_on());
  pace.looked(kMessage);
  EXPECT_EQ(looks_before_sleep(pace, kNothing), TrafficPace::kLooks);
}

// A core that has slept looks slowly once.
TEST(TrafficPace, TheFirstLookAfterASleepMayBeSlow) {
  TrafficPace pace;
  (void)looks_before_sleep(pace, kNothing);
  pace.slept();
  pace.looked(4us);
  EXPECT_EQ(looks_before_sleep(pace, kNothing), TrafficPace::kLooks - 1);
  EXPECT_EQ(pace.sleep(kAtMost), kAtMost);
  pace.slept();
  pace.looked(kNothing);
  pace.looked(4us);
  EXPECT_EQ(looks_before_sleep(pace, kNothing), TrafficPace::kLooks);
  EXPECT_EQ(pace.sleep(kAtMost), TrafficPace::kShortestSleep);
}

TEST(TrafficPace, SleepsGrowAfterTheLastFind) {
  TrafficPace pace;
  pace.looked(kNothing);
  pace.looked(kMessage);
  for (const nanoseconds sleep : {100us, 200us, 400us, 800us, 1000us, 1000us}) {
    (void)looks_before_sleep(pace, kNothing);
    EXPECT_EQ(pace.sleep(kAtMost), sleep);
    pace.slept();
  }
}

TEST(TrafficPace, SleepsNowAndThenInEndlessTraffic) {
  TrafficPace pace;
  for (int sleeps = 0; sleeps < 10; ++sleeps) {
    std::uint32_t looks = 0;
    do {
      pace.looked(looks++ % 2 == 0 ? kNothing : kMessage);
    } while (pace.looks_on());
    EXPECT_EQ(looks, TrafficPace::kMostLooks);
    EXPECT_EQ(pace.sleep(kAtMost), TrafficPace::kShortestSleep);
    pace.slept();
  }
}

TEST(TrafficPace, LearnsThatLooksHaveBecomeSlow) {
  TrafficPace pace;
  (void)looks_before_sleep(pace, 200ns);
  for (int sleeps = 0; sleeps < 1000; ++sleeps) {
    pace.slept();
    (void)looks_before_sleep(pace, 5us);
  }
  EXPECT_EQ(pace.sleep(kAtMost), kAtMost);
}

}  // namespace
}  // namespace outrigger
