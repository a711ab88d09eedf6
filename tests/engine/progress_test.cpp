#include "engine/core/progress.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "engine/core/pool.hpp"
#include "engine/core/ready_set.hpp"

namespace outrigger::engine {
namespace {

TEST(Progress, AgreesWithASetOfNumbers) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    Progress progress;
    std::set<std::uint64_t> model;
    for (int step = 0; step < 60; ++step) {
      const std::uint64_t sequence = random() % 24;
      switch (random() % 8) {
        case 0:
          progress.complete_below(sequence);
          for (std::uint64_t i = 0; i < sequence; ++i) model.insert(i);
          break;
        case 1:
          progress.reopen(sequence);
          model.erase(sequence);
          break;
        default: progress.complete(sequence); model.insert(sequence);
      }
      for (std::uint64_t i = 0; i < 30; ++i) ASSERT_EQ(progress.is_complete(i), model.contains(i)) << i;
    }
  }
}

TEST(Progress, RemembersFailuresUpToALimit) {
  Progress progress;
  for (std::uint64_t i = 0; i < 1000; ++i) progress.complete(i, CompletionStatus::mismatch);
  EXPECT_EQ(progress.status_of(999), CompletionStatus::mismatch);
  EXPECT_EQ(progress.status_of(0), CompletionStatus::ok);
}

TEST(ReadySet, TakesInRingOrderAfterOneself) {
  for (const std::size_t size : {1U, 5U, 64U, 65U, 200U}) {
    for (std::uint32_t me = 0; me < size; ++me) {
      Pool pool;
      ReadySet ready(pool, size, GroupRank{me});
      for (std::uint32_t rank = 0; rank < size; ++rank) ready.insert(GroupRank{rank});
      for (std::size_t i = 0; i < size; ++i) {
        ASSERT_TRUE(ready.any());
        ASSERT_EQ(ready.take().value(), (me + 1 + i) % size);
      }
      ASSERT_FALSE(ready.any());
    }
  }
}

TEST(ReadySet, TakesTheNearestThoughOthersCameBefore) {
  Pool pool;
  ReadySet ready(pool, 8, GroupRank{2});
  ready.insert(GroupRank{5});
  ready.insert(GroupRank{1});
  EXPECT_EQ(ready.take(), GroupRank{5});
  ready.insert(GroupRank{4});
  EXPECT_EQ(ready.take(), GroupRank{4});
  EXPECT_EQ(ready.take(), GroupRank{1});
}

// Like a sorted set, in groups with several summary words.
TEST(ReadySet, FindsTheNearestInLargeSparseGroups) {
  for (const std::uint32_t size : {4096U, 4097U, 12'345U}) {
    Pool pool;
    const std::uint32_t me = size / 3;
    ReadySet ready(pool, size, GroupRank{me});
    std::set<std::uint32_t> expected;
    std::uint32_t random = 1;
    for (int i = 0; i < 3000; ++i) {
      random = random * 1664525 + 1013904223;
      const std::uint32_t rank = (random >> 8) % size;
      if ((random & 0x700U) == 0 && expected.erase(rank) != 0) {
        ready.erase(GroupRank{rank});
      } else {
        ready.insert(GroupRank{rank});
        expected.insert(rank);
      }
      if (i % 2 == 0 || expected.empty()) continue;
      auto found = expected.lower_bound(me + 1);
      if (found == expected.end()) found = expected.begin();
      ASSERT_EQ(ready.take().value(), *found);
      expected.erase(found);
      ASSERT_EQ(ready.count(), expected.size());
    }
  }
}

TEST(Pool, HandsOutAgainWhatWasReleased) {
  Pool pool;
  void* first = pool.allocate(100);
  Pool::release(first);
  void* second = pool.allocate(90);
  EXPECT_EQ(pool.live(), 1U);
#if !defined(OUTRIGGER_SANITIZED)
  EXPECT_EQ(first, second);
#endif
  void* large = pool.allocate(Pool::kLargestPooledBytes + 1);
  EXPECT_EQ(pool.live(), 2U);
  Pool::release(second);
  Pool::release(large);
  EXPECT_EQ(pool.live(), 0U);
  EXPECT_EQ(pool.most_live(), 2U);
  Pool::release(Pool::allocate_alone(10));
}

}  // namespace
}  // namespace outrigger::engine
