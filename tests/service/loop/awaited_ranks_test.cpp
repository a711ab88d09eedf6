#include "service/loop/awaited_ranks.hpp"

#include <gtest/gtest.h>

namespace outrigger::service {
namespace {

constexpr GroupId kThree{1, 2};

std::optional<GroupRank> post(AwaitedRanks& ranks, std::uint32_t rank, std::uint64_t sequence, GroupId group = kThree) {
  return ranks.posted({group, sequence}, GroupRank{rank}, 3);
}

TEST(AwaitedRanks, NamesTheOneThatIsMissing) {
  AwaitedRanks ranks;
  EXPECT_EQ(post(ranks, 0, 0), std::nullopt);
  EXPECT_EQ(post(ranks, 2, 0), GroupRank{1});
  EXPECT_EQ(post(ranks, 1, 0), std::nullopt);
  EXPECT_EQ(post(ranks, 1, 1), std::nullopt);
  EXPECT_EQ(post(ranks, 2, 1), GroupRank{0});
}

TEST(AwaitedRanks, FirstRankOfTwoNamesTheOther) {
  AwaitedRanks ranks;
  EXPECT_EQ(ranks.posted({kThree, 7}, GroupRank{1}, 2), GroupRank{0});
  EXPECT_EQ(ranks.posted({kThree, 7}, GroupRank{0}, 2), std::nullopt);
}

TEST(AwaitedRanks, EachGroupHasItsOwnOperations) {
  AwaitedRanks ranks;
  EXPECT_EQ(post(ranks, 0, 0), std::nullopt);
  EXPECT_EQ(post(ranks, 0, 5, {1, 3}), std::nullopt);
  EXPECT_EQ(post(ranks, 1, 0), GroupRank{2});
  EXPECT_EQ(post(ranks, 2, 5, {1, 3}), GroupRank{1});
}

TEST(AwaitedRanks, KnowsTheLatestOperationOnly) {
  AwaitedRanks ranks;
  EXPECT_EQ(post(ranks, 0, 0), std::nullopt);
  EXPECT_EQ(post(ranks, 0, 1), std::nullopt);
  EXPECT_EQ(post(ranks, 1, 0), std::nullopt);
  EXPECT_EQ(post(ranks, 1, 1), GroupRank{2});
}

}  // namespace
}  // namespace outrigger::service
