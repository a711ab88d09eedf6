// Broadcasts: every byte, the tree, the segments of large blocks, and waits for late ranks.
#include <gtest/gtest.h>

#include "cluster.hpp"

namespace outrigger::engine::testing {
namespace {

constexpr std::uint64_t kBytes = 100;

class Bcast : public ::testing::TestWithParam<Algorithm> {
 protected:
  [[nodiscard]] static PostedOperation operation(Cluster& cluster, std::uint32_t rank, std::uint32_t root) {
    return cluster.bcast(rank, 0, kBytes, root, GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(Engine, Bcast, ::testing::Values(Algorithm::flat, Algorithm::hierarchical),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });

bool received(Cluster& cluster, std::uint32_t rank, std::uint32_t root) {
  const std::vector<std::byte>& here = cluster.buffers(rank, 0).receive;
  for (std::uint64_t i = 0; i < kBytes; ++i) {
    if (here[root * kBytes + i] != Cluster::pattern(root, 0, i)) return false;
  }
  return true;
}

TEST_P(Bcast, ReachesEverybodyFromAnyRoot) {
  for (const auto& shape : std::vector<std::vector<std::uint32_t>>{{0}, {0, 1}, {0, 0, 1, 1, 2}, {3, 2, 1, 0, 4, 4}}) {
    for (std::uint32_t root = 0; root < shape.size(); ++root) {
      Cluster cluster(shape);
      for (std::uint32_t rank = 0; rank < shape.size(); ++rank) cluster.post(operation(cluster, rank, root));
      cluster.settle();
      ASSERT_TRUE(cluster.all_completed(0));
      EXPECT_EQ(cluster.moves_done, shape.size() - 1);
      for (std::uint32_t rank = 0; rank < shape.size(); ++rank) {
        EXPECT_TRUE(rank == root || received(cluster, rank, root));
        EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::ok);
      }
      EXPECT_TRUE(cluster.idle());
      EXPECT_EQ(cluster.broken(), std::nullopt);
    }
  }
}

void expect_only_the_root_waits_for_rank_2(Cluster& cluster, Algorithm algorithm) {
  for (const std::uint32_t rank : {0U, 1U, 3U, 4U}) cluster.post(cluster.bcast(rank, 0, kBytes, 0, algorithm));
  cluster.settle();
  for (const std::uint32_t rank : {1U, 3U, 4U}) {
    EXPECT_TRUE(cluster.completed(rank, 0));
    EXPECT_TRUE(received(cluster, rank, 0));
  }
  EXPECT_FALSE(cluster.completed(0, 0));
  cluster.post(cluster.bcast(2, 0, kBytes, 0, algorithm));
  cluster.settle();
  EXPECT_TRUE(cluster.all_completed(0));
  EXPECT_TRUE(received(cluster, 2, 0));
  EXPECT_TRUE(cluster.idle());
}

// Service process 3 is below 2 in the tree; without a rank in 2 it asks further up.
TEST_P(Bcast, OnlyTheRootWaitsForLateRanks) {
  Cluster cluster({0, 1, 2, 3, 3});
  expect_only_the_root_waits_for_rank_2(cluster, GetParam());
}

EngineLimits splitting() {
  EngineLimits limits;
  limits.split_bytes = kBytes / 8;
  return limits;
}

// Each byte comes to each node but the root's once, in one segment per node other than the root's (hierarchical: times
// the largest number of service processes of a node).
TEST_P(Bcast, LargeBlocksGoInSegments) {
  struct Shape {
    std::vector<std::uint32_t> sp_of_rank;
    std::vector<std::uint32_t> node_of_sp;
    std::uint64_t flat_moves;
    std::uint64_t hierarchical_moves;
  };
  for (const Shape& shape :
       {Shape{{0, 1, 2, 3}, {0, 1, 2, 3}, 9, 9}, Shape{{0, 1, 2, 3, 4, 5}, {0, 0, 1, 1, 2, 2}, 4, 8},
        Shape{{2, 2, 0, 0, 1}, {0, 1, 2}, 4, 4}, Shape{{0, 1, 1}, {0, 1}, 1, 1}}) {
    const bool flat = GetParam() == Algorithm::flat;
    const auto ranks = static_cast<std::uint32_t>(shape.sp_of_rank.size());
    for (std::uint32_t root = 0; root < ranks; ++root) {
      Cluster cluster(shape.sp_of_rank, splitting(), nullptr, shape.node_of_sp);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) cluster.post(operation(cluster, rank, root));
      cluster.hold_moves = true;  // until all have asked: a node's first rank does not wait for its others
      cluster.settle();
      cluster.hold_moves = false;
      cluster.settle();
      ASSERT_TRUE(cluster.all_completed(0));
      for (std::uint32_t rank = 0; rank < ranks; ++rank) EXPECT_TRUE(rank == root || received(cluster, rank, root));
      EXPECT_EQ(cluster.moves_between_nodes, flat ? shape.flat_moves : shape.hierarchical_moves);
      EXPECT_TRUE(cluster.idle());
      EXPECT_EQ(cluster.broken(), std::nullopt);
    }
  }
}

// A home first reads its own segments, two at a time, and after each asks for the rest of its round: other homes have
// read theirs by then.
TEST_P(Bcast, WhatANodeIsHomeOfComesFirst) {
  EngineLimits limits;
  limits.split_bytes = 4;
  limits.segment_bytes = kBytes / 3 / 4;  // four segments for each of three nodes
  Cluster cluster({0, 1, 2, 3}, limits);
  const auto moves = [&](std::uint32_t sp) { return cluster.fabric(sp).moves.size(); };
  cluster.hold_moves = true;
  cluster.post(operation(cluster, 0, 0));
  cluster.post(operation(cluster, 1, 0));
  cluster.settle();
  EXPECT_EQ(moves(1), 2U);
  ASSERT_TRUE(cluster.finish_move(1));
  cluster.settle();
  EXPECT_EQ(moves(1), 1U + 1U + 2U) << "the second, the third, and two that late nodes are the homes of";
  // Another home has its segment by now, and the first gets it from there on request.
  cluster.post(operation(cluster, 2, 0));
  cluster.settle();
  EXPECT_EQ(moves(2), 2U);
  cluster.post(operation(cluster, 3, 0));
  cluster.hold_moves = false;
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  for (std::uint32_t rank = 1; rank < 4; ++rank) EXPECT_TRUE(received(cluster, rank, 0));
  EXPECT_TRUE(cluster.idle());
  EXPECT_EQ(cluster.broken(), std::nullopt);
}

// flat's tree has a place for each service process, hierarchical's for each node.
TEST_P(Bcast, SmallBlocksComeToANodeOnceOrToEachOfItsServiceProcesses) {
  Cluster cluster({0, 2, 4, 1, 3, 5}, {}, nullptr, {0, 0, 1, 1, 2, 2});
  for (std::uint32_t rank = 0; rank < 6; ++rank) cluster.post(operation(cluster, rank, 4));
  cluster.hold_moves = true;  // until all have asked: a node's first rank does not wait for its others
  cluster.settle();
  cluster.hold_moves = false;
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.moves_between_nodes, GetParam() == Algorithm::flat ? 5U : 2U);
  EXPECT_EQ(cluster.moves_done, 5U);
}

// The server of a node has no rank in the operation: a sibling gets the block, and the server's rank reads it there.
TEST(BcastHierarchical, ALateServerHasItFromItsSibling) {
  Cluster cluster({0, 1, 2, 2}, {}, nullptr, {0, 1, 1});
  for (const std::uint32_t rank : {0U, 2U, 3U}) {
    cluster.post(cluster.bcast(rank, 0, kBytes, 0, Algorithm::hierarchical));
  }
  cluster.hold_moves = true;
  cluster.settle();
  ASSERT_EQ(cluster.fabric(2).moves.size(), 1U);  // one of its two ranks, from the root
  cluster.post(cluster.bcast(1, 0, kBytes, 0, Algorithm::hierarchical));
  cluster.settle();
  EXPECT_TRUE(cluster.fabric(1).moves.empty());
  cluster.hold_moves = false;
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  for (const std::uint32_t rank : {1U, 2U, 3U}) EXPECT_TRUE(received(cluster, rank, 0));
  EXPECT_EQ(cluster.moves_between_nodes, 1U);
  EXPECT_TRUE(cluster.idle());
}

// The server of node 1 has told service process 2 to get the block for the node. After its rank was done it has sent 3
// to 2, so 2 has told 3 the same. Now late ranks of all three enter at once: 1 asks 2, 2 asks 3, and 3 asks 1.
TEST(BcastHierarchical, LateRanksThatAreSentOnDoNotWaitInACircle) {
  Cluster cluster({0, 1, 2, 2, 3, 3}, {}, nullptr, {0, 1, 1, 1});
  const auto post = [&](std::uint32_t rank) {
    cluster.post(cluster.bcast(rank, 0, kBytes, 0, Algorithm::hierarchical));
  };
  for (const std::uint32_t rank : {0U, 2U, 4U}) {
    post(rank);
    cluster.settle();
    EXPECT_EQ(cluster.completed(rank, 0), rank != 0);
  }
  cluster.hold_messages = true;
  for (const std::uint32_t rank : {1U, 3U, 5U}) post(rank);
  cluster.settle();
  cluster.hold_messages = false;
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  for (std::uint32_t rank = 1; rank < 6; ++rank) EXPECT_TRUE(received(cluster, rank, 0));
  EXPECT_TRUE(cluster.idle());
}

// Service process 2 is its node's first, and home of a segment.
TEST_P(Bcast, SegmentsGoRoundALateHome) {
  Cluster cluster({0, 1, 2, 3, 4}, splitting(), nullptr, {0, 0, 1, 1, 2});
  expect_only_the_root_waits_for_rank_2(cluster, GetParam());
}

TEST_P(Bcast, RanksThatNameDifferentRootsAreTold) {
  Cluster cluster({0, 1});
  cluster.post(operation(cluster, 0, 1));
  cluster.post(operation(cluster, 1, 0));
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  for (const std::uint32_t rank : {0U, 1U}) {
    EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::mismatch);
  }
  EXPECT_TRUE(cluster.idle());
}

}  // namespace
}  // namespace outrigger::engine::testing
