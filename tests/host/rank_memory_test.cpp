#include "fabric/host/rank_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "fabric_fixture.hpp"

namespace outrigger::rank_memory_test {
namespace {

using fabric::RankMemory;
using testing::kSegmentBase;
using testing::make_rank;
using testing::map_fresh;

constexpr RegionId kRegion{2};
constexpr std::uint64_t kBase = 0x10'0000;
constexpr std::uint64_t kBytes = 8192;
constexpr std::uint64_t kMax = ~std::uint64_t{0};

RankMemory rank_with_region() {
  RankMemory memory = make_rank(WorldRank{0}, 1);
  EXPECT_TRUE(memory.add_region(kRegion, kBase, map_fresh(kBytes)));
  return memory;
}

TEST(RankMemory, RangesInsideARegionAreMapped) {
  const RankMemory memory = rank_with_region();
  std::byte* first = memory.mapped(kRegion, kBase, kBytes);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(memory.mapped(kRegion, kBase + 100, 1), first + 100);
  EXPECT_EQ(memory.mapped(kRegion, kBase + kBytes - 1, 1), first + kBytes - 1);
  EXPECT_EQ(memory.mapped(kRegion, kBase + kBytes, 0), first + kBytes);
}

TEST(RankMemory, RangesThatLeaveARegionAreNot) {
  const RankMemory memory = rank_with_region();
  EXPECT_EQ(memory.mapped(kRegion, kBase - 1, 2), nullptr);
  EXPECT_EQ(memory.mapped(kRegion, kBase - 1, 1), nullptr);
  EXPECT_EQ(memory.mapped(kRegion, kBase + kBytes, 1), nullptr);
  EXPECT_EQ(memory.mapped(kRegion, kBase, kBytes + 1), nullptr);
  EXPECT_EQ(memory.mapped(kRegion, kBase + 1, kMax), nullptr);
  EXPECT_EQ(memory.mapped(kRegion, kBase + 1, kMax - kBase), nullptr);
  EXPECT_EQ(memory.mapped(kRegion, kMax, 1), nullptr);
  EXPECT_EQ(memory.mapped(kRegion, 0, 1), nullptr);
  EXPECT_EQ(memory.mapped(RegionId{3}, kBase, 1), nullptr);
  EXPECT_EQ(memory.mapped(kPrivateRegion, kBase, 1), nullptr);
}

TEST(RankMemory, ArenaIsItsOwnRegionAndNothingElseOfTheSegmentIs) {
  const RankMemory memory = make_rank(WorldRank{0}, 1);
  const std::uint64_t arena = kSegmentBase + SegmentView::arena_offset();
  EXPECT_EQ(memory.mapped(kArenaRegion, arena, kArenaBytes), memory.segment().arena());
  EXPECT_EQ(memory.mapped(kArenaRegion, arena - 1, 1), nullptr) << "slots are not the rank's to name";
  EXPECT_EQ(memory.mapped(kArenaRegion, kSegmentBase, 8), nullptr);
  EXPECT_EQ(memory.mapped(kArenaRegion, arena + kArenaBytes, 1), nullptr);
}

TEST(RankMemory, AnyClaimedBaseKeepsTheArenaInside) {
  const RankMemory memory = make_rank(WorldRank{0}, 1);
  std::mt19937_64 random(3);
  const auto* arena = memory.segment().arena();
  for (int i = 0; i < 100'000; ++i) {
    memory.segment().header().rank_base_address.store(random());
    const std::uint64_t bytes = random() % (2 * kArenaBytes);
    const std::byte* found = memory.mapped(kArenaRegion, random(), bytes);
    if (found != nullptr) {
      ASSERT_GE(found, arena);
      ASSERT_LE(found + bytes, arena + kArenaBytes);
    }
  }
}

TEST(RankMemory, PrivateRangesNeedReachAndMustNotWrap) {
  const RankMemory reachable = make_rank(WorldRank{0}, 1, true);
  const RankMemory unreachable = make_rank(WorldRank{0}, 1, false);
  EXPECT_TRUE(reachable.accessible(kPrivateRegion, 0x1000, 100));
  EXPECT_FALSE(reachable.accessible(kPrivateRegion, kMax - 10, 100));
  EXPECT_FALSE(unreachable.accessible(kPrivateRegion, 0x1000, 100));
}

TEST(RankMemory, WhatADpuKnewIsPrivateUnlessItIsMapped) {
  constexpr RegionId kKeyed = keyed_region(3, 9);
  RankMemory reachable = make_rank(WorldRank{0}, 1, true);
  EXPECT_EQ(reachable.known_as(kKeyed), kPrivateRegion);
  EXPECT_TRUE(reachable.accessible(kKeyed, 0x1000, 100));
  EXPECT_EQ(reachable.mapped(kKeyed, 0x1000, 100), nullptr);
  EXPECT_EQ(reachable.known_as(kRegion), kRegion);
  ASSERT_TRUE(reachable.add_region(kKeyed, kBase, map_fresh(kBytes)));
  EXPECT_EQ(reachable.known_as(kKeyed), kKeyed);
  EXPECT_NE(reachable.mapped(kKeyed, kBase, kBytes), nullptr);
  EXPECT_FALSE(reachable.accessible(kKeyed, 0x1000, 100));
  const RankMemory unreachable = make_rank(WorldRank{0}, 1, false);
  EXPECT_EQ(unreachable.known_as(kKeyed), kKeyed);
  EXPECT_FALSE(unreachable.accessible(kKeyed, 0x1000, 100));
}

TEST(RankMemory, RegionIdsAreCheckedAndDroppedRegionsAreGone) {
  RankMemory memory = rank_with_region();
  EXPECT_FALSE(memory.add_region(kPrivateRegion, kBase, map_fresh(kBytes)));
  EXPECT_FALSE(memory.add_region(kArenaRegion, kBase, map_fresh(kBytes)));
  EXPECT_FALSE(memory.add_region(kRegion, kBase, map_fresh(kBytes)));
  EXPECT_FALSE(memory.add_region(RegionId{3}, kBase + 1, map_fresh(kBytes)));
  EXPECT_FALSE(memory.add_region(RegionId{3}, kMax - 4095, map_fresh(kBytes)));
  EXPECT_TRUE(memory.drop_region(kRegion));
  EXPECT_FALSE(memory.drop_region(kRegion));
  EXPECT_EQ(memory.mapped(kRegion, kBase, 1), nullptr);
}

}  // namespace
}  // namespace outrigger::rank_memory_test
