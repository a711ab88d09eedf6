// Restarts: replays, answers, and that nothing moves twice.
#include <gtest/gtest.h>

#include "cluster.hpp"

namespace outrigger::engine::testing {
namespace {

class Replay : public ::testing::TestWithParam<Algorithm> {
 protected:
  PostedOperation replayed(Cluster& cluster, std::uint32_t rank, std::uint64_t sequence) {
    PostedOperation operation = cluster.operation(rank, sequence, 32, GetParam());
    operation.marks.assign(cluster.ranks(), 0);
    for (std::uint32_t source = 0; source < cluster.ranks(); ++source) {
      operation.marks[source] = cluster.mark(rank, sequence, source);
    }
    return operation;
  }
};

INSTANTIATE_TEST_SUITE_P(Engine, Replay, ::testing::Values(Algorithm::ring_pull, Algorithm::scatter_dest),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });

TEST_P(Replay, AnOperationSurvivesTheRestartOfEitherSide) {
  for (const std::uint32_t victim : {0U, 1U}) {
    Cluster cluster({0, 0, 1, 1});
    for (std::uint32_t rank : {0U, 1U, 2U}) cluster.post(cluster.operation(rank, 0, 32, GetParam()));
    cluster.settle();  // everything but rank 3's blocks
    const std::uint64_t before = cluster.moves_done;
    EXPECT_EQ(before, 9U);
    cluster.restart(victim);
    for (std::uint32_t rank : {0U, 1U, 2U}) {
      if (cluster.operation(rank, 0, 32, GetParam()).rank.value() / 2 == victim)
        cluster.post(replayed(cluster, rank, 0));
    }
    cluster.settle();
    EXPECT_EQ(cluster.moves_done, before);  // marked blocks are not moved again
    cluster.post(cluster.operation(3, 0, 32, GetParam()));
    cluster.settle();
    ASSERT_TRUE(cluster.all_completed(0));
    for (std::uint32_t rank = 0; rank < 4; ++rank) EXPECT_TRUE(cluster.bytes_right(rank, 0, 32));
    EXPECT_EQ(cluster.moves_done, 16U);
    EXPECT_TRUE(cluster.idle());
  }
}

TEST_P(Replay, ALostReleaseIsAskedFor) {
  Cluster cluster({0, 1});
  for (std::uint32_t rank : {0U, 1U}) cluster.post(cluster.operation(rank, 0, 32, GetParam()));
  // Up to the last messages: stops as soon as one side has completed.
  while (!cluster.completed(0, 0) && !cluster.completed(1, 0)) {
    cluster.hold_messages = true;
    cluster.settle();
    cluster.hold_messages = false;
    if (cluster.letters.empty()) break;
    const Cluster::Letter letter = cluster.letters.front();
    cluster.letters.pop_front();
    ASSERT_TRUE(cluster.engine(letter.to.value()).receive(letter.from, letter.message));
    cluster.engine(letter.to.value()).run();
  }
  const std::uint32_t finished = cluster.completed(0, 0) ? 0 : 1;
  const std::uint32_t open = 1 - finished;
  ASSERT_FALSE(cluster.completed(open, 0));
  cluster.restart(finished);  // its last messages are lost
  cluster.engine(finished).restore_progress(WorldRank{finished}, GroupId{1, 1}, 1);
  cluster.settle();
  EXPECT_TRUE(cluster.completed(open, 0));
  EXPECT_EQ(cluster.completion(open, 0).record.status, CompletionStatus::ok);
  EXPECT_TRUE(cluster.bytes_right(open, 0, 32));
  EXPECT_TRUE(cluster.idle());
}

// With kept memory: as soon as a rank's receive blocks are placed, though others still read its send blocks.
TEST(Filled, IsToldBeforeWhatIsSentIsReleased) {
  Cluster cluster({0, 1});
  for (const std::uint32_t rank : {0U, 1U}) {
    PostedOperation operation = cluster.operation(rank, 0, 32, Algorithm::ring_pull);
    operation.kept = rank == 0;
    cluster.post(std::move(operation));
  }
  cluster.hold_moves = true;
  cluster.settle();
  const std::vector<WorldRank>& told = cluster.fabric(0).told_filled;
  EXPECT_TRUE(told.empty());
  while (cluster.finish_move(0)) cluster.settle();
  EXPECT_EQ(told, std::vector<WorldRank>{WorldRank{0}});
  EXPECT_TRUE(cluster.bytes_right(0, 0, 32));
  EXPECT_TRUE(cluster.marked(0, 0, 1));
  EXPECT_FALSE(cluster.completed(0, 0)) << "rank 1 has not read";
  cluster.hold_moves = false;
  cluster.settle();
  EXPECT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(told.size(), 1U);
  EXPECT_TRUE(cluster.fabric(1).told_filled.empty()) << "its memory is not kept";
}

TEST(Filled, ARootIsToldAtOnceAndARankThatFailsIsNot) {
  Cluster cluster({0, 1});
  PostedOperation root = cluster.bcast(0, 0, 32, 0, Algorithm::flat);
  root.kept = true;
  cluster.post(std::move(root));
  cluster.settle();
  EXPECT_EQ(cluster.fabric(0).told_filled, std::vector<WorldRank>{WorldRank{0}});
  EXPECT_FALSE(cluster.completed(0, 0));
  cluster.faulty_source = WorldRank{0};
  PostedOperation other = cluster.bcast(1, 0, 32, 0, Algorithm::flat);
  other.kept = true;
  cluster.post(std::move(other));
  cluster.settle();
  EXPECT_TRUE(cluster.all_completed(0));
  EXPECT_TRUE(cluster.fabric(1).told_filled.empty());
}

TEST_P(Replay, AFreedGroupStillAnswers) {
  Cluster cluster({0, 1});
  for (std::uint32_t rank : {0U, 1U}) cluster.post(cluster.operation(rank, 0, 32, GetParam()));
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  cluster.engine(0).forget_group(WorldRank{0}, GroupId{1, 1});
  cluster.settle();
  // Rank 1 has not seen its completion. Its service process is replaced and repeats all announcements.
  cluster.restart(1);
  cluster.post(replayed(cluster, 1, 0));
  cluster.settle();
  EXPECT_EQ(cluster.completion(1, 0).count, 2U);
  EXPECT_TRUE(cluster.bytes_right(1, 0, 32));
  EXPECT_TRUE(cluster.idle());
}

TEST_P(Replay, WhatAnOldIncarnationSaidIsIgnored) {
  Cluster cluster({0, 1});
  cluster.hold_messages = true;
  cluster.post(cluster.operation(1, 0, 32, GetParam()));
  cluster.settle();
  ASSERT_FALSE(cluster.letters.empty());
  const Cluster::Letter old = cluster.letters.front();
  cluster.restart(1);
  cluster.hold_messages = false;
  const std::uint64_t before = cluster.moves_done;
  cluster.post(cluster.operation(0, 0, 32, GetParam()));
  EXPECT_TRUE(cluster.engine(0).receive(SpId{1}, old.message));
  cluster.settle();
  EXPECT_EQ(cluster.moves_done, before + 1);  // own block only
  cluster.post(replayed(cluster, 1, 0));
  cluster.settle();
  EXPECT_TRUE(cluster.all_completed(0));
  EXPECT_TRUE(cluster.idle());
}

// A second invitation while the push is in flight must not start a second push.
TEST(Replay, OnePushOfABlockAtATime) {
  Cluster cluster({0, 1});
  for (std::uint32_t rank : {0U, 1U}) {
    PostedOperation operation = cluster.operation(rank, 0, 32, Algorithm::scatter_dest);
    operation.own_block_done = true;
    cluster.post(std::move(operation));
  }
  cluster.hold_moves = true;
  cluster.settle();
  ASSERT_EQ(cluster.fabric(0).moves.size(), 1U);
  cluster.restart(1);
  PostedOperation again = cluster.operation(1, 0, 32, Algorithm::scatter_dest);
  again.own_block_done = true;
  cluster.post(std::move(again));
  cluster.settle();
  EXPECT_EQ(cluster.fabric(0).moves.size(), 1U);
  cluster.hold_moves = false;
  cluster.settle();
  EXPECT_TRUE(cluster.all_completed(0));
  EXPECT_TRUE(cluster.marked(1, 0, 0));
  EXPECT_TRUE(cluster.idle());
}

}  // namespace
}  // namespace outrigger::engine::testing
