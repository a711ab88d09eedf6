// The keeper's list of ranks.
#include "service/keeper/ranks/local_ranks.hpp"

#include <gtest/gtest.h>

namespace outrigger::service {
namespace {

constexpr std::uint32_t kBoth = 2;
constexpr std::uint64_t kBytes = 8192;

RegionBody region(std::uint32_t id) {
  return RegionBody{0, id, 0x10000, kBytes};
}

Status add(RankRegions& regions, const RegionBody& body) {
  if (Status taken = regions.take_id(body.region); !taken) return taken;
  Result<UniqueFd> fd = create_sealed_memory("outrigger-test", kBytes, Backing::on_touch);
  EXPECT_TRUE(fd);
  return regions.add(body, std::move(fd).value());
}

TEST(RankRegions, AreThereWhenEveryServiceProcessHasAnsweredOnce) {
  RankRegions regions;
  ASSERT_TRUE(add(regions, region(5)));
  EXPECT_EQ(regions.answer(5, 0, kBoth, true), nullptr);
  EXPECT_EQ(regions.answer(5, 0, kBoth, true), nullptr) << "the same one again";
  const RankRegions::Region* added = regions.answer(5, 1, kBoth, true);
  ASSERT_NE(added, nullptr);
  EXPECT_TRUE(added->ok);
  EXPECT_EQ(regions.answer(5, 1, kBoth, true), nullptr) << "told already";
}

TEST(RankRegions, OneRefusalIsEnough) {
  RankRegions regions;
  ASSERT_TRUE(add(regions, region(5)));
  EXPECT_EQ(regions.answer(5, 1, kBoth, false), nullptr);
  const RankRegions::Region* refused = regions.answer(5, 0, kBoth, true);
  ASSERT_NE(refused, nullptr);
  EXPECT_FALSE(refused->ok);
}

TEST(RankRegions, AnswersAboutDroppedRegionsAreIgnored) {
  RankRegions regions;
  ASSERT_TRUE(add(regions, region(5)));
  EXPECT_TRUE(regions.drop(5));
  EXPECT_FALSE(regions.drop(5));
  EXPECT_EQ(regions.answer(5, 0, 1, true), nullptr);
}

TEST(RankRegions, RegionOfADpuKeepsItsId) {
  const std::uint32_t keyed = keyed_region(3, 9).value();
  RankRegions regions;
  EXPECT_FALSE(regions.take_keyed_id(7)) << "no DPU calls anything so";
  ASSERT_TRUE(regions.take_keyed_id(keyed));
  Result<UniqueFd> fd = create_sealed_memory("outrigger-test", kBytes, Backing::on_touch);
  ASSERT_TRUE(fd);
  ASSERT_TRUE(regions.add(region(keyed), std::move(fd).value()));
  EXPECT_FALSE(regions.take_keyed_id(keyed)) << "twice";
  EXPECT_TRUE(regions.take_id(kFirstAddedRegion.value())) << "it counts for nothing among the others";
  EXPECT_FALSE(regions.has_been(keyed)) << "nor is it dropped before the rank leaves";
}

TEST(RankRegions, IdsAscend) {
  RankRegions regions;
  EXPECT_FALSE(regions.take_id(0));
  EXPECT_FALSE(regions.take_id(kFirstAddedRegion.value() - 1));
  ASSERT_TRUE(add(regions, region(7)));
  EXPECT_FALSE(regions.take_id(7));
  EXPECT_FALSE(regions.take_id(6));
  EXPECT_TRUE(regions.drop(7));
  EXPECT_FALSE(regions.take_id(7)) << "never again";
  EXPECT_TRUE(regions.has_been(7));
  EXPECT_FALSE(regions.has_been(8));
}

TEST(RankRegions, RangesAreOfWholePagesAndDoNotWrap) {
  RankRegions regions;
  EXPECT_FALSE(add(regions, RegionBody{0, 3, 0x10001, kBytes}));
  EXPECT_FALSE(add(regions, RegionBody{0, 4, 0x10000, 0}));
  EXPECT_FALSE(add(regions, RegionBody{0, 5, ~std::uint64_t{0} - 4095, kBytes}));
  EXPECT_FALSE(add(regions, RegionBody{0, 6, 0x10000, 2 * kBytes})) << "longer than its memory";
  EXPECT_TRUE(regions.all().empty());
}

TEST(LocalRanks, RankThatHasLeftIsNotFound) {
  Events events;
  LocalRanks ranks(events, 4, 2);
  const auto hello_of = [](std::uint32_t world_rank, std::uint32_t local_rank) {
    HelloBody hello;
    hello.world_rank = world_rank;
    hello.world_size = 4;
    hello.local_rank = local_rank;
    hello.local_size = 2;
    return hello;
  };
  ASSERT_FALSE(ranks.problem_of(hello_of(3, 1)));
  ranks.admit(NewRank{ControlSocket(), 0, hello_of(3, 1)});
  EXPECT_EQ(ranks.find(3), 1U);
  EXPECT_EQ(ranks.present(), 1U);
  EXPECT_TRUE(ranks.problem_of(hello_of(2, 1))) << "the local rank is taken";
  EXPECT_TRUE(ranks.problem_of(hello_of(3, 0))) << "the rank is here";
  EXPECT_TRUE(ranks.problem_of(hello_of(4, 0)));
  EXPECT_TRUE(ranks.problem_of(hello_of(0, 2)));
  ranks[1].sp = 5;
  EXPECT_TRUE(ranks.left().empty());
  ranks.leave(1);
  ASSERT_EQ(ranks.left().size(), 1U);
  EXPECT_EQ(ranks.left()[0].world_rank, 3U);
  EXPECT_EQ(ranks.left()[0].sp, 5U);
  EXPECT_EQ(ranks.find(3), std::nullopt);
  EXPECT_EQ(ranks.present(), 0U);
  EXPECT_FALSE(ranks[1].present);
}

}  // namespace
}  // namespace outrigger::service
