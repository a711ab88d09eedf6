#include "mpi/polite/idle_polls.hpp"

#include <gtest/gtest.h>

namespace outrigger::mpi {
namespace {

using Pause = IdlePolls::Pause;
using std::chrono::nanoseconds;

// A thread that polls: `gap` passes between two polls, each of which takes `poll`.
struct Polling {
  IdlePolls polls;
  nanoseconds now{1'000'000};
  nanoseconds gap{100};
  nanoseconds poll{200};
  nanoseconds yield{1000};
  nanoseconds longest_gap = IdlePolls::kLongestGap;

  Pause next() {
    now += gap;
    const nanoseconds began = now;
    now += poll;
    const Pause pause = polls.next(began, now, longest_gap);
    if (pause == Pause::none) return pause;
    now += pause == Pause::sleep ? nanoseconds(100'000) : yield;
    polls.paused(pause, now);
    return pause;
  }
  // Polls until the first pause of this kind, at most a thousand.
  int polls_until(Pause pause) {
    for (int count = 1; count <= 1000; ++count) {
      if (next() == pause) return count;
    }
    return 0;
  }
};

TEST(IdlePolls, SpinThenYieldThenSleep) {
  Polling thread;
  EXPECT_EQ(thread.polls_until(Pause::yield), static_cast<int>(IdlePolls::kSpins) + 1);
  EXPECT_EQ(thread.polls_until(Pause::sleep), static_cast<int>(IdlePolls::kYields) - 1);
}

TEST(IdlePolls, YieldBetweenSleeps) {
  Polling thread;
  ASSERT_NE(thread.polls_until(Pause::sleep), 0);
  EXPECT_EQ(thread.next(), Pause::yield);
  EXPECT_EQ(thread.polls_until(Pause::sleep), static_cast<int>(IdlePolls::kYields) - 1);
}

TEST(IdlePolls, WaitedTimeIsFromTheFirstPoll) {
  Polling thread;
  const nanoseconds first = thread.now + thread.gap;
  ASSERT_NE(thread.polls_until(Pause::yield), 0);
  EXPECT_EQ(thread.polls.take_waited(), thread.now - first);
  EXPECT_EQ(thread.polls.take_waited(), nanoseconds(0));
  const nanoseconds before = thread.now;
  ASSERT_NE(thread.polls_until(Pause::sleep), 0);
  EXPECT_EQ(thread.polls.take_waited(), thread.now - before);
}

TEST(IdlePolls, ComputationIsNotWaitedTime) {
  Polling thread;
  ASSERT_NE(thread.polls_until(Pause::sleep), 0);
  static_cast<void>(thread.polls.take_waited());
  thread.now += nanoseconds(50'000);
  const nanoseconds first = thread.now + thread.gap;
  ASSERT_NE(thread.polls_until(Pause::yield), 0);
  EXPECT_EQ(thread.polls.take_waited(), thread.now - first);
}

TEST(IdlePolls, SleepAtOnceWhereOthersCompute) {
  Polling thread;
  thread.yield = LongYields::kLong + nanoseconds(1);
  ASSERT_NE(thread.polls_until(Pause::yield), 0);
  EXPECT_EQ(thread.next(), Pause::sleep);
  for (int sleeps = 1; sleeps < static_cast<int>(LongYields::kSleepsAlone); ++sleeps) {
    EXPECT_EQ(thread.polls_until(Pause::sleep), static_cast<int>(IdlePolls::kSpins) + 1);
  }
  EXPECT_EQ(thread.polls_until(Pause::yield), static_cast<int>(IdlePolls::kSpins) + 1) << "others may have ended";
  EXPECT_EQ(thread.next(), Pause::sleep);
}

TEST(IdlePolls, RoundsMayTakeLongerThanGaps) {
  Polling thread;
  thread.longest_gap = IdlePolls::kLongestRound;
  thread.gap = IdlePolls::kLongestRound;
  EXPECT_NE(thread.polls_until(Pause::sleep), 0);
  thread.gap += nanoseconds(1);
  EXPECT_EQ(thread.polls_until(Pause::yield), 0);
}

TEST(IdlePolls, ShortYieldsGoOn) {
  Polling thread;
  thread.yield = LongYields::kLong;
  ASSERT_NE(thread.polls_until(Pause::yield), 0);
  EXPECT_EQ(thread.next(), Pause::yield);
}

TEST(IdlePolls, BeginAnewAfterAMessage) {
  Polling thread;
  ASSERT_NE(thread.polls_until(Pause::sleep), 0);
  thread.polls.found();
  EXPECT_EQ(thread.next(), Pause::none);
}

TEST(IdlePolls, BeginAnewAfterComputation) {
  Polling thread;
  ASSERT_NE(thread.polls_until(Pause::sleep), 0);
  thread.now += nanoseconds(50'000);
  EXPECT_EQ(thread.next(), Pause::none);
}

TEST(IdlePolls, LongPollsContinueAWait) {
  Polling thread;
  thread.poll = nanoseconds(20'000);
  EXPECT_NE(thread.polls_until(Pause::sleep), 0);
}

}  // namespace
}  // namespace outrigger::mpi
