#include "fabric/ucx/peer_window.hpp"

#include <gtest/gtest.h>

namespace outrigger::fabric::ucx {
namespace {

using std::chrono::microseconds;

constexpr std::uint64_t kChunk = 60'000;
constexpr std::uint64_t kLeast = 3 * kChunk;
constexpr std::uint64_t kMost = 1'000'000;
constexpr microseconds kSoon{100};
constexpr microseconds kLate{3000};

PeerWindow adapting() {
  PeerWindow window;
  window.limit({kLeast, kMost});
  return window;
}

// As many chunks as there is room for; then they arrive, all after as long.
void fill_and_empty(PeerWindow& window, microseconds after) {
  std::uint64_t chunks = 0;
  for (; window.may_begin(kChunk); ++chunks) window.begun(kChunk);
  for (; chunks != 0; --chunks) {
    window.arrived(kChunk, after);
    window.ended(kChunk);
  }
  ASSERT_EQ(window.used_bytes(), 0U);
}

TEST(PeerWindow, BeginsWithTheLeast) {
  PeerWindow window = adapting();
  EXPECT_EQ(window.bytes(), kLeast);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(window.may_begin(kChunk));
    window.begun(kChunk);
  }
  EXPECT_FALSE(window.may_begin(kChunk));
  window.ended(kChunk);
  EXPECT_TRUE(window.may_begin(kChunk));
}

TEST(PeerWindow, OneChunkMayAlwaysBegin) {
  PeerWindow window = adapting();
  EXPECT_TRUE(window.may_begin(10 * kMost));
}

TEST(PeerWindow, GrowsUpToTheMostWhereChunksArriveSoon) {
  PeerWindow window = adapting();
  fill_and_empty(window, kSoon);
  EXPECT_EQ(window.bytes(), kLeast + kChunk) << "one chunk has waited";
  for (int i = 0; i < 100; ++i) fill_and_empty(window, kSoon);
  EXPECT_EQ(window.bytes(), kMost);
}

TEST(PeerWindow, ShrinksDownToTheLeastWhereTheyAreLate) {
  PeerWindow window = adapting();
  for (int i = 0; i < 100; ++i) fill_and_empty(window, kSoon);
  window.arrived(kChunk, kLate);
  EXPECT_EQ(window.bytes(), kMost - kChunk);
  fill_and_empty(window, kLate);
  fill_and_empty(window, kLate);
  EXPECT_EQ(window.bytes(), kLeast);
}

TEST(PeerWindow, WhatNobodyWaitsForShowsNothing) {
  PeerWindow window = adapting();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(window.may_begin(kChunk));
    window.begun(kChunk);
    window.arrived(kChunk, kSoon);
    window.ended(kChunk);
  }
  EXPECT_EQ(window.bytes(), kLeast);
}

TEST(PeerWindow, WhatFailsShowsNothing) {
  PeerWindow window = adapting();
  window.begun(kChunk);
  EXPECT_FALSE(window.may_begin(kLeast));
  window.ended(kChunk);
  EXPECT_EQ(window.bytes(), kLeast);
}

TEST(PeerWindow, StaysWhereTheNetworkMovesMemory) {
  PeerWindow window;
  window.limit({kMost, kMost});
  fill_and_empty(window, kLate);
  EXPECT_EQ(window.bytes(), kMost);
  fill_and_empty(window, kSoon);
  EXPECT_EQ(window.bytes(), kMost);
}

// The network's limits are known when the first chunk is cut. They do not change an existing window within them.
TEST(PeerWindow, KeepsWhatItIsWithinItsLimits) {
  PeerWindow window = adapting();
  for (int i = 0; i < 5; ++i) fill_and_empty(window, kSoon);
  const std::uint64_t grown = window.bytes();
  ASSERT_GT(grown, kLeast);
  window.limit({kLeast, kMost});
  EXPECT_EQ(window.bytes(), grown);
}

}  // namespace
}  // namespace outrigger::fabric::ucx
