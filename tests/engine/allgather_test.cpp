// Allgathers: every byte, late ranks, and how often a block comes to a node.
#include <gtest/gtest.h>

#include "cluster.hpp"

namespace outrigger::engine::testing {
namespace {

class Allgather : public ::testing::TestWithParam<Algorithm> {};

INSTANTIATE_TEST_SUITE_P(Engine, Allgather,
                         ::testing::Values(Algorithm::flat, Algorithm::node_pull, Algorithm::hierarchical),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });

TEST_P(Allgather, MovesEveryByte) {
  const std::vector<std::vector<std::uint32_t>> shapes = {
      {0}, {0, 0, 0, 0}, {0, 1}, {0, 1, 0, 1, 2}, {3, 2, 1, 1, 0, 0}};
  for (const auto& shape : shapes) {
    Cluster cluster(shape, {}, nullptr, {0, 0, 1, 1});
    for (std::uint32_t rank = 0; rank < shape.size(); ++rank) cluster.post(cluster.gather(rank, 0, 100, GetParam()));
    cluster.settle();
    ASSERT_TRUE(cluster.all_completed(0));
    for (std::uint32_t rank = 0; rank < shape.size(); ++rank) {
      EXPECT_TRUE(cluster.gathered_right(rank, 0, 100));
      EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::ok);
      EXPECT_EQ(cluster.completion(rank, 0).record.bytes_by_reach[0], 100 * shape.size());
    }
    EXPECT_TRUE(cluster.idle());
    EXPECT_EQ(cluster.broken(), std::nullopt);
  }
}

// Ranks 0-3 on one node, 4-7 on another, two service processes each.
const std::vector<std::uint32_t> kTwoNodes = {0, 0, 1, 1, 2, 2, 3, 3};
const std::vector<std::uint32_t> kStrided = {0, 2, 1, 3, 0, 2, 1, 3};

class OncePerNode : public ::testing::TestWithParam<Algorithm> {};

INSTANTIATE_TEST_SUITE_P(Engine, OncePerNode, ::testing::Values(Algorithm::node_pull, Algorithm::hierarchical),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });

TEST_P(OncePerNode, ABlockComesToANodeOnceWhateverTheMapping) {
  for (const auto& shape : {kTwoNodes, kStrided}) {
    Cluster cluster(shape, {}, nullptr, {0, 0, 1, 1});
    for (std::uint32_t rank = 0; rank < 8; ++rank) cluster.post(cluster.gather(rank, 0, 64, GetParam()));
    cluster.settle();
    ASSERT_TRUE(cluster.all_completed(0));
    EXPECT_EQ(cluster.moves_between_nodes, 8U);
    EXPECT_EQ(cluster.moves_done, 64U);
  }
}

// On a node with several ranks only the block's home knows the reader, once ranks have arrived.
TEST(NodePull, SendsEagerlyToRanksThatAreAloneOnTheirNode) {
  struct Case {
    std::vector<std::uint32_t> sp_of_rank;
    std::vector<std::uint32_t> node_of_sp;
    std::size_t blocks;
  };
  for (const Case& each : {Case{{0, 1, 2}, {0, 1, 2}, 6}, Case{{0, 0, 1}, {0, 1}, 2}, Case{{0, 1, 2}, {0, 0, 1}, 2},
                           Case{{0, 0, 1, 1}, {0, 1}, 0}, Case{{0, 1}, {0, 0}, 0}}) {
    Cluster cluster(each.sp_of_rank, {}, nullptr, each.node_of_sp);
    for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
      cluster.post(cluster.gather(rank, 0, 64, Algorithm::node_pull));
    }
    cluster.settle();
    ASSERT_TRUE(cluster.all_completed(0));
    std::size_t blocks = 0;
    for (std::uint32_t sp = 0; sp < cluster.services(); ++sp) blocks += cluster.fabric(sp).eager.size();
    EXPECT_EQ(blocks, each.blocks);
  }
}

// Four nodes of two service processes: three times two segments of each block, and each comes to each other node once.
// A rank with a single large block sends it once.
TEST(Hierarchical, LargeBlocksGoInSegmentsFromMoreThanTheirSource) {
  EngineLimits limits;
  limits.split_bytes = 8;
  Cluster cluster({0, 1, 2, 3, 4, 5, 6, 7}, limits, nullptr, {0, 0, 1, 1, 2, 2, 3, 3});
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    PostedOperation posted = cluster.gather(rank, 0, 64, Algorithm::hierarchical);
    if (rank != 0) posted.send.block_bytes = 0;
    posted.receive.extents.assign(8, PairExtent{});
    posted.receive.extents[0].bytes = 64;
    cluster.post(std::move(posted));
  }
  cluster.hold_moves = true;  // until all have asked: ranks without blocks do not wait for their node's others
  cluster.settle();
  cluster.hold_moves = false;
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.moves_between_nodes, 6U * 3U);
  EXPECT_EQ(cluster.moves_from(0) - 2U, 6U);  // beside the two ranks of its own node: each segment once
  EXPECT_TRUE(cluster.idle());
  EXPECT_EQ(cluster.broken(), std::nullopt);
}

// A rank that leaves while it gets a block for its node hands that to a waiting rank.
TEST_P(OncePerNode, ARankThatLeavesHandsOnWhatItGets) {
  for (std::uint32_t leaves = 0; leaves < 3; ++leaves) {
    Cluster cluster({0, 0, 0, 1}, {}, nullptr, {0, 1});
    cluster.hold_moves = true;
    for (std::uint32_t rank = 0; rank < 4; ++rank) cluster.post(cluster.gather(rank, 0, 64, GetParam()));
    cluster.settle();
    cluster.engine(0).drop_rank(WorldRank{leaves});
    cluster.hold_moves = false;
    cluster.settle();
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(cluster.completed(rank, 0), rank != leaves) << leaves;
      EXPECT_TRUE(rank == leaves || cluster.marked(rank, 0, 3)) << leaves;
    }
    EXPECT_EQ(cluster.broken(), std::nullopt);
    EXPECT_TRUE(cluster.idle());
  }
}

TEST_P(OncePerNode, AServiceProcessWithoutARankInTheOperationPassesItOn) {
  Cluster cluster(kTwoNodes, {}, nullptr, {0, 0, 1, 1});
  for (const std::uint32_t rank : {0U, 1U, 2U, 3U, 6U}) {  // none of service process 2
    cluster.post(cluster.gather(rank, 0, 64, GetParam()));
  }
  cluster.settle();
  EXPECT_EQ(cluster.moves_between_nodes, 4U + 1U);  // all existing blocks came, and rank 6's block went
  for (std::uint32_t source : {0U, 1U, 2U, 3U, 6U}) EXPECT_TRUE(cluster.marked(6, 0, source));
  EXPECT_FALSE(cluster.completed(6, 0));
  for (const std::uint32_t rank : {4U, 5U, 7U}) cluster.post(cluster.gather(rank, 0, 64, GetParam()));
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.moves_between_nodes, 8U);  // the late ones copied from rank 6
  for (std::uint32_t rank = 0; rank < 8; ++rank) EXPECT_TRUE(cluster.gathered_right(rank, 0, 64));
  EXPECT_TRUE(cluster.idle());
}

// A rank stays until its readers have finished, even if its service process was restarted.
TEST(NodePull, ARestartWaitsForThoseWhoRead) {
  Cluster cluster({0, 1, 2}, {}, nullptr, {0, 1, 1});
  const auto reader = [&](std::uint32_t rank) {  // sends nothing, so waits for no release
    PostedOperation posted = cluster.gather(rank, 0, 64, Algorithm::node_pull);
    posted.send.block_bytes = 0;
    posted.receive.extents.assign(3, PairExtent{});
    posted.receive.extents[0].bytes = 64;
    return posted;
  };
  cluster.hold_moves = true;
  cluster.post(cluster.gather(0, 0, 64, Algorithm::node_pull));
  for (const std::uint32_t rank : {1U, 2U}) cluster.post(reader(rank));
  cluster.settle();
  // Service process 1 is the home of block 0 and gets it; 2 reads it there.
  ASSERT_EQ(cluster.fabric(1).moves.size(), 1U);
  EXPECT_TRUE(cluster.fabric(2).moves.empty());
  ASSERT_TRUE(cluster.finish_move(1));
  cluster.settle();
  ASSERT_EQ(cluster.fabric(2).moves.size(), 1U);
  EXPECT_EQ(cluster.fabric(2).moves.front().from.memory.owner, WorldRank{1});
  EXPECT_FALSE(cluster.completed(1, 0));  // it is being read

  cluster.restart(1);
  PostedOperation replayed = reader(1);
  replayed.marks = {1, 0, 0};
  cluster.post(std::move(replayed));
  cluster.settle();
  EXPECT_FALSE(cluster.completed(1, 0));  // it still is
  cluster.hold_moves = false;
  cluster.settle();
  EXPECT_TRUE(cluster.all_completed(0));
  EXPECT_TRUE(cluster.marked(2, 0, 0));
  EXPECT_TRUE(cluster.idle());
  EXPECT_EQ(cluster.moves_between_nodes, 1U);
}

}  // namespace
}  // namespace outrigger::engine::testing
