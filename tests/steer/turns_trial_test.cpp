#include "steer/rank/turns_trial.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace outrigger::steer {
namespace {

struct Costs {
  std::int64_t native_ns;
  std::int64_t ranks_ns;
  std::int64_t slots_ns = 0;  // where slots are tried

  [[nodiscard]] std::int64_t of(const TurnsTrial::Turn& turn) const {
    if (turn.way == Way::native) return native_ns;
    return turn.by_slots ? slots_ns : ranks_ns;
  }
};

// Two ranks through one trial. The second comes to every call `late_ns` after the first.
struct TwoRanks {
  std::array<TurnsTrial, 2> trials;
  std::int64_t now_ns = 1'000'000;
  std::uint64_t rows = 0;

  // Returns how many calls it takes.
  std::uint64_t make_trial(const Costs& costs, std::int64_t late_ns = 0) {
    std::uint64_t calls = 0;
    for (; !trials[0].is_over(); ++calls) {
      const TurnsTrial::Turn turn = trials[0].next();
      const TurnsTrial::Turn other = trials[1].next();
      EXPECT_EQ(turn.way, other.way);
      EXPECT_EQ(turn.begins_row, other.begins_row);
      rows += turn.begins_row ? 1 : 0;
      const std::int64_t end_ns = now_ns + late_ns + costs.of(turn);
      if (turn.timed) {
        trials[0].note(turn, {now_ns, end_ns});
        trials[1].note(other, {now_ns + late_ns, end_ns});
      }
      now_ns = end_ns;
    }
    const std::vector<TurnTimes> all{trials[0].times(), trials[1].times()};
    for (TurnsTrial& trial : trials) trial.judge(all);
    return calls;
  }
  std::uint64_t pass_quiet_calls() {
    std::uint64_t calls = 0;
    for (TurnsTrial& trial : trials) {
      for (calls = 0; trial.is_quiet(); ++calls) trial.take();
    }
    return calls;
  }
  // Calls until another trial begins.
  std::uint64_t quiet_calls() {
    std::uint64_t calls = 0;
    const Way way = trials[0].way();
    for (;; ++calls) {
      const TurnsTrial::Turn turn = trials[0].next();
      if (turn.way != way || turn.timed) return calls;
    }
  }
};

TEST(TurnsTrial, TheFasterWayIsTaken) {
  TwoRanks ranks;
  ranks.make_trial({1000, 500});
  EXPECT_EQ(ranks.trials[0].way(), Way::ranks);
  EXPECT_EQ(ranks.trials[1].next().way, Way::ranks);
}

TEST(TurnsTrial, RanksCopyAsIsFaster) {
  for (const std::int64_t slots_ns : {300, 700}) {
    TwoRanks ranks;
    for (TurnsTrial& trial : ranks.trials) trial = TurnsTrial({.tries_slots = true});
    ranks.make_trial({1000, 500, slots_ns}, 100);
    EXPECT_EQ(ranks.trials[0].way(), Way::ranks);
    EXPECT_EQ(ranks.trials[0].by_slots(), slots_ns < 500);
    EXPECT_EQ(ranks.trials[1].next().by_slots, slots_ns < 500);
    EXPECT_EQ(ranks.trials[0].saved_ns(), 1000 - std::min<std::int64_t>(slots_ns, 500));
  }
}

TEST(TurnsTrial, WhatIsNotClearlyFasterStaysNative) {
  TwoRanks ranks;
  ranks.make_trial({1000, 980});
  EXPECT_EQ(ranks.trials[0].way(), Way::native);
}

TEST(TurnsTrial, WaitingForALateRankDoesNotCount) {
  TwoRanks ranks;
  ranks.make_trial({1000, 900}, 1'000'000);
  EXPECT_EQ(ranks.trials[0].way(), Way::ranks);
}

TEST(TurnsTrial, OnSharedCoresLaterTrialsAreOfRows) {
  TwoRanks ranks;
  ranks.trials[0] = TurnsTrial({.runs_ahead = true});
  ranks.trials[1] = TurnsTrial({.runs_ahead = true, .shares_core = true});
  const std::uint64_t first = ranks.make_trial({1000, 300});
  EXPECT_EQ(ranks.rows, 0U);
  EXPECT_EQ(ranks.trials[0].way(), Way::ranks);
  EXPECT_LT(ranks.pass_quiet_calls(), 2000U) << "also if one way is much faster call by call";
  const std::uint64_t second = ranks.make_trial({1000, 1500});
  EXPECT_EQ(ranks.rows, first) << "each turn of the first trial is a row of the second";
  EXPECT_GT(second, 16 * first) << "a rank is as far ahead as it can be in most calls of a row";
  EXPECT_EQ(ranks.trials[1].way(), Way::native);
  ranks.pass_quiet_calls();
  ranks.make_trial({1000, 500});
  EXPECT_EQ(ranks.trials[0].saved_ns(), 500);
}

TEST(TurnsTrial, OnCoresOfTheirOwnTheyAreNot) {
  TwoRanks ranks;
  for (TurnsTrial& trial : ranks.trials) trial = TurnsTrial({.runs_ahead = true});
  const std::uint64_t first = ranks.make_trial({1000, 500});
  ranks.pass_quiet_calls();
  EXPECT_EQ(ranks.make_trial({1000, 500}), first);
  EXPECT_EQ(ranks.rows, 0U);
}

TEST(TurnsTrial, TimesOfAnotherNodeMoveToThisClock) {
  TurnTimes times;
  times.calls[1][2] = {1000, 1700};
  const TurnTimes moved = times.later_by(-5000);
  EXPECT_EQ(moved.calls[1][2].began_ns, -4000);
  EXPECT_EQ(moved.calls[1][2].ended_ns, -3300);
}

TEST(TurnsTrial, SavedIsTheDifferenceForEachRank) {
  TwoRanks ranks;
  EXPECT_EQ(ranks.trials[0].saved_ns(), 0);
  ranks.make_trial({1000, 400}, 5000);
  EXPECT_EQ(ranks.trials[0].saved_ns(), 600);
}

TEST(TurnsTrial, NothingIsSavedNatively) {
  TwoRanks ranks;
  ranks.make_trial({1000, 2000});
  EXPECT_EQ(ranks.trials[0].saved_ns(), 0);
}

TEST(TurnsTrial, ATrialIsUnderWayUntilItIsJudged) {
  TwoRanks ranks;
  EXPECT_FALSE(ranks.trials[0].is_under_way());
  static_cast<void>(ranks.trials[0].next());
  EXPECT_TRUE(ranks.trials[0].is_under_way());
  static_cast<void>(ranks.trials[1].next());
  ranks.make_trial({1000, 2000});
  static_cast<void>(ranks.trials[0].next());
  EXPECT_FALSE(ranks.trials[0].is_under_way());
}

TEST(TurnsTrial, BothWaysAreTriedEquallyOften) {
  TurnsTrial trial;
  int native = 0;
  int by_ranks = 0;
  int timed = 0;
  while (!trial.is_over()) {
    const TurnsTrial::Turn turn = trial.next();
    ++(turn.way == Way::native ? native : by_ranks);
    timed += turn.timed ? 1 : 0;
  }
  EXPECT_EQ(native, by_ranks);
  EXPECT_EQ(timed, 2 * static_cast<int>(TurnTimes::kTimed));
}

TEST(TurnsTrial, TrialsBecomeRarer) {
  TwoRanks ranks;
  ranks.make_trial({1000, 700});
  const std::uint64_t first = ranks.quiet_calls();
  TwoRanks clear;
  clear.make_trial({1000, 100});
  EXPECT_GT(clear.quiet_calls(), first);
  EXPECT_GT(first, 1000U);
}

// The first call by ranks that would be native, after each trial.
std::uint64_t calls_until_look(TurnsTrial& trial) {
  for (std::uint64_t calls = 0; calls < 100'000; ++calls) {
    const TurnsTrial::Turn turn = trial.next();
    EXPECT_FALSE(turn.timed || trial.is_under_way());
    if (turn.way == Way::ranks) return calls;
  }
  return 0;
}

TEST(TurnsTrial, RanksLookNowAndThen) {
  TwoRanks ranks;
  ranks.trials = {TurnsTrial({.looks = true}), TurnsTrial({.looks = true})};
  ranks.make_trial({1000, 3000});
  TurnsTrial& trial = ranks.trials[0];
  const std::uint64_t first = calls_until_look(trial);
  EXPECT_LT(first, 100U);
  EXPECT_GT(first, 50U);
  EXPECT_EQ(calls_until_look(trial), 2 * first);
  EXPECT_EQ(calls_until_look(trial), 4 * first);
}

TEST(TurnsTrial, LooksDoNotDelayTrials) {
  TwoRanks with;
  with.trials = {TurnsTrial({.looks = true}), TurnsTrial({.looks = true})};
  TwoRanks without;
  for (TwoRanks* ranks : {&with, &without}) ranks->make_trial({1000, 3000});
  std::uint64_t calls = 0;
  for (; !without.trials[0].is_under_way(); ++calls) {
    ASSERT_FALSE(with.trials[0].is_under_way());
    static_cast<void>(with.trials[0].next());
    static_cast<void>(without.trials[0].next());
  }
  EXPECT_TRUE(with.trials[0].is_under_way());
  EXPECT_GT(calls, 1000U);
}

// A rank may look at a call less closely than another one: both count it.
TEST(TurnsTrial, QuietCallsAreCountedAlike) {
  TwoRanks ranks;
  EXPECT_FALSE(ranks.trials[0].is_quiet()) << "the first trial is not made yet";
  for (const std::int64_t by_ranks_ns : {5000, 5000, 500}) {
    ranks.make_trial({1000, by_ranks_ns});
    std::uint64_t quiet = 0;
    for (; ranks.trials[0].is_quiet(); ++quiet) {
      ranks.trials[0].take();
      const TurnsTrial::Turn other = ranks.trials[1].next();
      ASSERT_EQ(other.way, ranks.trials[0].way());
      ASSERT_FALSE(other.timed);
    }
    EXPECT_GT(quiet, 1000U);
    EXPECT_FALSE(ranks.trials[1].is_quiet());
  }
}

}  // namespace
}  // namespace outrigger::steer
