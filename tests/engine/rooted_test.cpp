// Gathers and scatters: exchanges with the root, waits, and repetitions after a restart.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "cluster.hpp"

namespace outrigger::engine::testing {
namespace {

constexpr std::uint64_t kBlockBytes = 40;
const std::array<std::vector<std::uint32_t>, 3> kRootedPlacements{
    std::vector<std::uint32_t>{0, 0, 0}, {0, 1, 2, 3}, {0, 0, 1, 2, 1, 3}};

PostedOperation post_of(Cluster& cluster, Collective collective, std::uint32_t rank, std::uint32_t root) {
  if (collective == Collective::igather) return cluster.to_root(rank, 0, kBlockBytes, root);
  return cluster.from_root(rank, 0, kBlockBytes, root);
}

// The block of `source` is in its place, and no other block is.
bool has_block_of(Cluster& cluster, std::uint32_t rank, std::uint32_t source) {
  const std::byte* block = &cluster.buffers(rank, 0).receive[source * kBlockBytes];
  for (std::uint64_t i = 0; i < kBlockBytes; ++i) {
    if (block[i] != Cluster::pattern(source, rank, i)) return false;
  }
  return true;
}

bool is_untouched(Cluster& cluster, std::uint32_t rank, std::uint32_t source) {
  const std::byte* block = &cluster.buffers(rank, 0).receive[source * kBlockBytes];
  return std::all_of(block, block + kBlockBytes, [](std::byte byte) { return byte == std::byte{0xEE}; });
}

void expect_right(Cluster& cluster, Collective collective, std::uint32_t root) {
  const auto ranks = static_cast<std::uint32_t>(cluster.ranks());
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    ASSERT_TRUE(cluster.completed(rank, 0));
    EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::ok);
    for (std::uint32_t source = 0; source < ranks; ++source) {
      const bool gets = collective == Collective::igather ? rank == root : source == root;
      EXPECT_TRUE(gets ? has_block_of(cluster, rank, source) : is_untouched(cluster, rank, source));
    }
  }
  EXPECT_TRUE(cluster.idle());
  EXPECT_EQ(cluster.broken(), std::nullopt);
}

class Rooted : public ::testing::TestWithParam<Collective> {};

TEST_P(Rooted, MovesTheBlocksOfTheRootAndNoOthers) {
  for (const auto& placement : kRootedPlacements) {
    for (std::uint32_t root = 0; root < placement.size(); ++root) {
      Cluster cluster(placement, {}, nullptr, {0, 0, 1, 1});
      for (std::uint32_t rank = 0; rank < placement.size(); ++rank) {
        cluster.post(post_of(cluster, GetParam(), rank, root));
      }
      cluster.settle();
      expect_right(cluster, GetParam(), root);
      EXPECT_EQ(cluster.moves_done, placement.size());
    }
  }
}

// One announcement each way between the root and each other rank, and a release of the block.
TEST_P(Rooted, SendsThreeMessagesForEachOtherRank) {
  Cluster cluster({0, 1, 2, 3});
  for (std::uint32_t rank = 0; rank < 4; ++rank) cluster.post(post_of(cluster, GetParam(), rank, 2));
  cluster.settle();
  EXPECT_EQ(cluster.messages_sent, 9U);
}

// Other ranks of the root's service process get no messages that are not for them.
TEST_P(Rooted, IsBetweenTheRootAndEachOtherAlone) {
  Cluster cluster({0, 0, 0, 1});
  for (std::uint32_t rank = 0; rank < 4; ++rank) cluster.post(post_of(cluster, GetParam(), rank, 1));
  cluster.settle();
  expect_right(cluster, GetParam(), 1);
  EXPECT_EQ(cluster.messages_sent, 3U);
}

TEST_P(Rooted, OnlyTheRootWaitsForTheLate) {
  for (const auto& placement : {std::vector<std::uint32_t>{0, 0, 0}, std::vector<std::uint32_t>{0, 1, 1}}) {
    Cluster cluster(placement);
    for (const std::uint32_t rank : {0U, 1U}) cluster.post(post_of(cluster, GetParam(), rank, 0));
    cluster.settle();
    EXPECT_FALSE(cluster.completed(0, 0));
    EXPECT_TRUE(cluster.completed(1, 0));
    cluster.post(post_of(cluster, GetParam(), 2, 0));
    cluster.settle();
    expect_right(cluster, GetParam(), 0);
  }
}

TEST_P(Rooted, WaitsForTheRoot) {
  Cluster cluster({0, 1, 1});
  for (const std::uint32_t rank : {1U, 2U}) cluster.post(post_of(cluster, GetParam(), rank, 0));
  cluster.settle();
  EXPECT_FALSE(cluster.completed(1, 0) || cluster.completed(2, 0));
  cluster.post(post_of(cluster, GetParam(), 0, 0));
  cluster.settle();
  expect_right(cluster, GetParam(), 0);
}

// Any service process is restarted when some blocks are placed.
TEST_P(Rooted, IsReplayedFromTheMarks) {
  for (std::uint32_t restarted = 0; restarted < 3; ++restarted) {
    Cluster cluster({0, 1, 1, 2});
    cluster.hold_moves = true;
    for (std::uint32_t rank = 0; rank < 4; ++rank) cluster.post(post_of(cluster, GetParam(), rank, 0));
    cluster.settle();
    static_cast<void>(cluster.finish_move(0));
    static_cast<void>(cluster.finish_move(1));
    cluster.settle();
    cluster.restart(restarted);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const std::uint32_t sp = rank == 0 ? 0 : rank == 3 ? 2 : 1;
      if (sp != restarted) continue;
      if (cluster.completed(rank, 0)) {
        cluster.engine(sp).restore_progress(WorldRank{rank}, GroupId{1, 1}, 1);
        continue;
      }
      PostedOperation again = post_of(cluster, GetParam(), rank, 0);
      again.marks.assign(4, 0);
      for (std::uint32_t source = 0; source < 4; ++source) again.marks[source] = cluster.marked(rank, 0, source);
      cluster.post(std::move(again));
      cluster.engine(sp).restore_progress(WorldRank{rank}, GroupId{1, 1}, 0);
    }
    cluster.hold_moves = false;
    cluster.settle();
    expect_right(cluster, GetParam(), 0);
  }
}

TEST_P(Rooted, AnotherRootIsAMismatch) {
  Cluster cluster({0, 1, 2});
  for (std::uint32_t rank = 0; rank < 3; ++rank) cluster.post(post_of(cluster, GetParam(), rank, rank == 1 ? 1 : 0));
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.completion(0, 0).record.status, CompletionStatus::mismatch);
  EXPECT_EQ(cluster.completion(1, 0).record.status, CompletionStatus::mismatch);
  EXPECT_TRUE(cluster.idle());
}

INSTANTIATE_TEST_SUITE_P(, Rooted, ::testing::Values(Collective::igather, Collective::iscatter),
                         [](const auto& given) { return std::string(name_of(given.param)); });

TEST(Gather, OfMoreThanThereIsRoomForIsTruncated) {
  Cluster cluster({0, 1});
  PostedOperation root = cluster.to_root(0, 0, kBlockBytes, 0);
  root.receive.block_bytes = kBlockBytes / 2;
  cluster.post(std::move(root));
  cluster.post(cluster.to_root(1, 0, kBlockBytes, 0));
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.completion(0, 0).record.status, CompletionStatus::truncated);
  EXPECT_EQ(cluster.completion(1, 0).record.status, CompletionStatus::ok);
}

TEST(Scatter, OfMoreThanThereIsRoomForIsTruncated) {
  Cluster cluster({0, 1});
  cluster.post(cluster.from_root(0, 0, kBlockBytes, 0));
  PostedOperation other = cluster.from_root(1, 0, kBlockBytes, 0);
  other.receive.block_bytes = kBlockBytes / 2;
  cluster.post(std::move(other));
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.completion(0, 0).record.status, CompletionStatus::ok);
  EXPECT_EQ(cluster.completion(1, 0).record.status, CompletionStatus::truncated);
}

}  // namespace
}  // namespace outrigger::engine::testing
