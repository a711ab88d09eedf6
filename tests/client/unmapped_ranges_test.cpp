#include "client/memory/unmapped_ranges.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace outrigger::client {
namespace {

using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
constexpr std::uint64_t kHighest = ~std::uint64_t{0};

Ranges drained(UnmappedRanges& ranges) {
  Ranges gone;
  ranges.drain([&gone](std::uint64_t begin, std::uint64_t end) { gone.emplace_back(begin, end); });
  return gone;
}

TEST(UnmappedRanges, ComeOutOnceInTheirOrder) {
  UnmappedRanges ranges;
  EXPECT_TRUE(ranges.empty());
  ranges.note(4096, 8192);
  ranges.note(0, 4096);
  EXPECT_FALSE(ranges.empty());
  EXPECT_EQ(drained(ranges), (Ranges{{4096, 8192}, {0, 4096}}));
  EXPECT_TRUE(ranges.empty());
  EXPECT_EQ(drained(ranges), Ranges{});
}

TEST(UnmappedRanges, AsManyAsThereIsRoomForAreKept) {
  UnmappedRanges ranges;
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < UnmappedRanges::kMost; ++i) ranges.note(i, i + 1);
    const Ranges gone = drained(ranges);
    ASSERT_EQ(gone.size(), UnmappedRanges::kMost);
    EXPECT_EQ(gone.back(), (std::pair<std::uint64_t, std::uint64_t>{UnmappedRanges::kMost - 1, UnmappedRanges::kMost}));
  }
}

TEST(UnmappedRanges, WithOneMoreEverythingIsGone) {
  UnmappedRanges ranges;
  for (std::uint64_t i = 0; i <= UnmappedRanges::kMost; ++i) ranges.note(i, i + 1);
  EXPECT_EQ(drained(ranges), (Ranges{{0, kHighest}}));
  EXPECT_TRUE(ranges.empty());
  ranges.note(5, 6);
  EXPECT_EQ(drained(ranges), (Ranges{{5, 6}}));
}

// Each note comes out of the next drain or a later one, by itself or with everything.
TEST(UnmappedRanges, NothingIsLostAmongThreads) {
  constexpr std::uint64_t kThreads = 3;
  constexpr std::uint64_t kEach = 20'000;
  UnmappedRanges ranges;
  std::vector<bool> gone(kThreads * kEach, false);
  const auto mark = [&gone](std::uint64_t begin, std::uint64_t end) {
    if (end == kHighest) return;  // everything
    ASSERT_EQ(end, begin + 1);
    ASSERT_LT(begin, gone.size());
    ASSERT_FALSE(gone[begin]) << begin;
    gone[begin] = true;
  };
  bool all_at_once = false;
  std::atomic<std::uint64_t> running{kThreads};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&ranges, &running, t] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        ranges.note(t * kEach + i, t * kEach + i + 1);
        if (i % 256 == 0) std::this_thread::yield();
      }
      running.fetch_sub(1);
    });
  }
  const auto drain = [&] {
    ranges.drain([&](std::uint64_t begin, std::uint64_t end) {
      all_at_once |= end == kHighest;
      mark(begin, end);
    });
  };
  while (running.load() != 0) drain();
  for (std::thread& thread : threads) thread.join();
  drain();
  EXPECT_TRUE(ranges.empty());
  std::uint64_t missing = 0;
  for (const bool one : gone) missing += one ? 0 : 1;
  EXPECT_TRUE(missing == 0 || all_at_once) << missing;
}

}  // namespace
}  // namespace outrigger::client
