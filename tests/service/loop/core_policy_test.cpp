// A service process detects that others use its core.
#include <gtest/gtest.h>

#include <chrono>

#include "service/loop/core_readings.hpp"
#include "service/loop/core_watch.hpp"

namespace outrigger::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A core, and readings of a thread that always wants to run on it.
class WatchedCore {
 public:
  WatchedCore() { watch_.note(times_, now_); }
  // The thread runs, and then waits, for so many milliseconds.
  WatchedCore& turn(int ran_ms, int waited_ms) {
    times_.ran += milliseconds(ran_ms);
    times_.waited += milliseconds(waited_ms);
    now_ += milliseconds(ran_ms + waited_ms);
    watch_.note(times_, now_);
    return *this;
  }
  // The rank's copiers used `lent_ms` of the waiting time.
  WatchedCore& turn(int ran_ms, int waited_ms, int lent_ms) {
    times_.lent += milliseconds(lent_ms);
    return turn(ran_ms, waited_ms);
  }
  WatchedCore& rest(milliseconds time, double free_share) {
    now_ += time;
    watch_.note_free_share(free_share, time, now_);
    return *this;
  }
  [[nodiscard]] bool taken() const { return watch_.taken(); }
  [[nodiscard]] std::chrono::nanoseconds lost() const { return watch_.lost(); }

 private:
  CoreWatch watch_;
  RunTimes times_;
  CoreWatch::Clock::time_point now_{seconds(1000)};
};

TEST(CoreWatch, TakenAfterTenLostSlicesNotAfterABurst) {
  WatchedCore core;
  EXPECT_FALSE(core.turn(2, 25).taken());
  EXPECT_TRUE(core.turn(1, 4).turn(1, 4).taken());
}

TEST(CoreWatch, RareBurstsAreIgnored) {
  WatchedCore core;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(core.turn(80, 25).taken());
}

TEST(CoreWatch, RareSlicesAreIgnored) {
  WatchedCore core;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(core.turn(20, 4).taken());
}

TEST(CoreWatch, CopiersTimeIsNotLost) {
  WatchedCore core;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(core.turn(1, 4, 4).taken());
  EXPECT_EQ(core.lost(), milliseconds(0));
  EXPECT_FALSE(core.turn(1, 16, 0).taken());
  EXPECT_TRUE(core.turn(1, 16, 0).taken());
  EXPECT_EQ(core.lost(), milliseconds(32));
}

TEST(CoreWatch, CopiersTimeDuringSleepDoesNotHideLaterLosses) {
  WatchedCore core;
  for (int i = 0; i < 100; ++i) core.turn(1, 0, 5);
  EXPECT_TRUE(core.turn(2, 16, 0).turn(2, 16, 0).taken());
}

TEST(CoreWatch, IsFreeAfterAnIdleSecond) {
  WatchedCore core;
  core.turn(0, 40);
  EXPECT_TRUE(core.rest(milliseconds(900), 0.99).taken());
  EXPECT_TRUE(core.rest(milliseconds(100), 0.5).taken());  // counting starts again
  EXPECT_TRUE(core.rest(milliseconds(900), 0.99).taken());
  EXPECT_FALSE(core.rest(milliseconds(100), 0.99).taken());
}

TEST(CoreWatch, RestDoublesWhenTakenAgainSoon) {
  WatchedCore core;
  core.turn(0, 40).rest(seconds(1), 1);
  ASSERT_FALSE(core.taken());
  core.turn(0, 40);
  EXPECT_TRUE(core.rest(seconds(1), 1).taken());
  EXPECT_FALSE(core.rest(seconds(1), 1).taken());
  core.turn(20'000, 0);  // after a long time it does not count
  core.turn(0, 40);
  EXPECT_TRUE(core.taken());
  EXPECT_FALSE(core.rest(seconds(1), 1).taken());
}

TEST(CoreReadings, RunningThreadIsMeasured) {
  RunTimesReader reader;
  const std::optional<RunTimes> before = reader.read();
  if (!before) GTEST_SKIP() << "this kernel does not count";
  const auto end = std::chrono::steady_clock::now() + milliseconds(30);
  while (std::chrono::steady_clock::now() < end) {
  }
  const std::optional<RunTimes> after = reader.read();
  ASSERT_TRUE(after);
  const auto wanted = after->ran - before->ran + after->waited - before->waited;
  EXPECT_GE(wanted, milliseconds(25));
  EXPECT_LT(wanted, seconds(10));
}

TEST(CoreReadings, MissingCpusAreNotIdle) {
  EXPECT_TRUE(IdleTimeReader(0).read());
  EXPECT_FALSE(IdleTimeReader(-1).read());
  EXPECT_FALSE(IdleTimeReader(100'000).read());
}

}  // namespace
}  // namespace outrigger::service
