#include "base/tick_clock.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <thread>

#include "base/clock.hpp"

namespace outrigger::client::test {
namespace {

std::int64_t system_ns() {
  return time_on(CLOCK_MONOTONIC).count();
}

// A thread that loses its core between two readings shows a false difference, so take the least of several.
std::int64_t least_difference_ns() {
  std::int64_t least = INT64_MAX;
  for (int i = 0; i < 100; ++i) {
    const std::int64_t before = system_ns();
    const std::int64_t told = TickClock::now_ns();
    const std::int64_t after = system_ns();
    const std::int64_t outside = told < before ? before - told : told > after ? told - after : 0;
    least = outside < least ? outside : least;
  }
  return least;
}

constexpr std::int64_t kClose = 20'000;

TEST(TickClock, AgreesWithTheSystemsClock) {
  for (int i = 0; i < 50; ++i) {
    EXPECT_LT(least_difference_ns(), kClose);
    std::this_thread::sleep_for(std::chrono::microseconds(700));
  }
}

TEST(TickClock, AgreesAfterAPause) {
  (void)TickClock::now_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(least_difference_ns(), kClose);
}

TEST(TickClock, NeverGoesBack) {
  std::int64_t last = TickClock::now_ns();
  const std::int64_t until = system_ns() + 100'000'000;
  while (last < until) {
    const std::int64_t now = TickClock::now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(TickClock, ServesEachThread) {
  std::thread([] {
    std::int64_t last = TickClock::now_ns();
    const std::int64_t until = system_ns() + 20'000'000;
    while (last < until) {
      const std::int64_t now = TickClock::now_ns();
      ASSERT_GE(now, last);
      last = now;
    }
    EXPECT_LT(least_difference_ns(), kClose);
  }).join();
}

}  // namespace
}  // namespace outrigger::client::test
