// Ranks that are lost, also when service processes are restarted. No rank waits for them or gets a wrong result.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "cluster.hpp"

namespace outrigger::engine::testing {
namespace {

constexpr GroupId kGroup{1, 1};

// As its slot has it after a restart.
PostedOperation with_marks(Cluster& cluster, PostedOperation posted) {
  posted.marks.assign(cluster.ranks(), 0);
  for (std::uint32_t source = 0; source < cluster.ranks(); ++source) {
    posted.marks[source] = cluster.mark(posted.rank.value(), posted.id.sequence, source);
  }
  return posted;
}

bool all_ended(Cluster& cluster, std::uint32_t but, CompletionStatus status) {
  for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
    if (rank == but) continue;
    if (!cluster.completed(rank, 0) || cluster.completion(rank, 0).record.status != status) return false;
  }
  return true;
}

// An exchange of two ranks, up to the end of one: its last messages are lost.
struct HalfEnded {
  explicit HalfEnded(Algorithm algorithm, std::optional<WorldRank> faulty_source = std::nullopt) {
    cluster.faulty_source = faulty_source;
    for (const std::uint32_t rank : {0U, 1U}) cluster.post(cluster.operation(rank, 0, 32, algorithm));
    cluster.hold_messages = true;
    for (cluster.settle(); !cluster.completed(0, 0) && !cluster.completed(1, 0); cluster.settle()) {
      const Cluster::Letter letter = cluster.letters.front();
      cluster.letters.pop_front();
      EXPECT_TRUE(cluster.engine(letter.to.value()).receive(letter.from, letter.message));
    }
    cluster.letters.clear();
    cluster.hold_messages = false;
    ended = cluster.completed(0, 0) ? 0 : 1;
    open = 1 - ended;
  }

  Cluster cluster{{0, 1}};
  std::uint32_t ended = 0;
  std::uint32_t open = 1;
};

class LostRanks : public ::testing::TestWithParam<Algorithm> {};
INSTANTIATE_TEST_SUITE_P(Engine, LostRanks, ::testing::Values(Algorithm::ring_pull, Algorithm::scatter_dest),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });

TEST_P(LostRanks, WhatOneHadCompletedIsStillComplete) {
  HalfEnded job(GetParam());
  Cluster& cluster = job.cluster;
  ASSERT_FALSE(cluster.completed(job.open, 0));
  cluster.engine(job.ended).drop_rank(WorldRank{job.ended});
  cluster.restart(job.open);
  cluster.post(with_marks(cluster, cluster.operation(job.open, 0, 32, GetParam())));
  cluster.settle();
  ASSERT_TRUE(cluster.completed(job.open, 0));
  EXPECT_EQ(cluster.completion(job.open, 0).record.status, CompletionStatus::ok);
  EXPECT_TRUE(cluster.bytes_right(job.open, 0, 32));
  EXPECT_TRUE(cluster.idle());
}

// The rank that has ended was released although its block could not be read. Nothing in the other one's slot says so.
TEST_P(LostRanks, ABlockThatFailedBeforeRestartsIsNotTakenForDelivered) {
  std::uint32_t tried = 0;
  for (const std::uint32_t faulty : {0U, 1U}) {
    HalfEnded job(GetParam(), WorldRank{faulty});
    if (job.ended != faulty) continue;
    ++tried;
    Cluster& cluster = job.cluster;
    for (const std::uint32_t service : {0U, 1U}) cluster.restart(service);
    cluster.engine(job.ended).restore_progress(WorldRank{job.ended}, kGroup, 1);
    cluster.post(with_marks(cluster, cluster.operation(job.open, 0, 32, GetParam())));
    cluster.settle();
    cluster.post(cluster.operation(job.ended, 1, 32, GetParam()));
    cluster.settle();
    ASSERT_TRUE(cluster.completed(job.open, 0));
    EXPECT_EQ(cluster.completion(job.open, 0).record.status, CompletionStatus::peer_lost);
  }
  EXPECT_NE(tried, 0U);
}

// The service process is told of both before it runs.
TEST_P(LostRanks, ARestoredRankIsReportedBeforeItIsDropped) {
  HalfEnded job(GetParam());
  Cluster& cluster = job.cluster;
  cluster.restart(job.ended);
  cluster.settle();
  cluster.post(cluster.operation(job.ended, 1, 32, GetParam()));
  cluster.engine(job.ended).restore_progress(WorldRank{job.ended}, kGroup, 2);
  cluster.engine(job.ended).drop_rank(WorldRank{job.ended});
  cluster.settle();
  ASSERT_TRUE(cluster.completed(job.open, 0));
  EXPECT_EQ(cluster.completion(job.open, 0).record.status, CompletionStatus::ok);
  EXPECT_TRUE(cluster.idle());
}

TEST_P(LostRanks, NothingIsKeptForThoseWhoLeftWithoutAPost) {
  for (const bool leaves_first : {true, false}) {
    Cluster cluster({0, 1, 1});
    const auto leave = [&cluster] {
      for (const std::uint32_t rank : {1U, 2U}) cluster.engine(1).drop_rank(WorldRank{rank});
    };
    if (leaves_first) leave();
    cluster.post(cluster.operation(0, 0, 8, GetParam()));
    cluster.settle();
    if (!leaves_first) leave();
    cluster.settle();
    ASSERT_TRUE(cluster.completed(0, 0));
    EXPECT_EQ(cluster.completion(0, 0).record.status, CompletionStatus::peer_lost);
    EXPECT_TRUE(cluster.idle()) << leaves_first;
  }
}

// The source has heard of the loss while it wrote. The destination's service process knows nothing of the group.
TEST(LostDestination, APushToItIsAnswered) {
  Cluster cluster({0, 1});
  cluster.hold_moves = true;
  for (const std::uint32_t rank : {0U, 1U}) cluster.post(cluster.operation(rank, 0, 32, Algorithm::scatter_dest));
  cluster.settle();
  cluster.restart(1);
  cluster.engine(1).drop_rank(WorldRank{1});
  cluster.settle();
  EXPECT_FALSE(cluster.completed(0, 0));
  cluster.hold_moves = false;
  cluster.settle();
  EXPECT_TRUE(all_ended(cluster, 1, CompletionStatus::peer_lost));
  EXPECT_TRUE(cluster.idle());
}

TEST(LostRankOfBarrier, NobodyLeavesWithoutAnError) {
  for (std::uint32_t lost = 0; lost < 6; ++lost) {
    for (const bool first : {true, false}) {
      Cluster cluster({0, 0, 1, 1, 2, 2});
      const auto lose = [&] { cluster.engine(lost / 2).drop_rank(WorldRank{lost}); };
      if (first) lose();
      for (std::uint32_t rank = 0; rank < 6; ++rank) {
        if (rank != lost) cluster.post(cluster.barrier(rank, 0));
      }
      cluster.settle();
      if (!first) lose();
      cluster.settle();
      EXPECT_TRUE(all_ended(cluster, lost, CompletionStatus::peer_lost)) << lost << first;
    }
  }
}

// Each has asked the other for its slice, and cannot reduce its own.
TEST(LostContribution, OwnersOfSlicesDoNotWaitForEachOther) {
  EngineLimits limits;
  limits.split_bytes = 16;
  limits.short_slice_bytes = 0;
  Cluster cluster({0, 1, 2}, limits);
  cluster.hold_moves = true;
  for (std::uint32_t rank = 0; rank < 3; ++rank) cluster.post(cluster.allreduce(rank, 0, 96));
  cluster.settle();
  cluster.faulty_source = WorldRank{0};
  cluster.hold_moves = false;
  cluster.settle();
  EXPECT_TRUE(all_ended(cluster, 3, CompletionStatus::memory_fault));
  EXPECT_TRUE(cluster.idle());
}

PostedOperation rooted(Cluster& cluster, std::uint32_t rank) {
  return cluster.allreduce(rank, 0, 96, {ReduceOperation::sum, ElementType::float32}, Algorithm::rooted);
}

// It was lost when the result had been announced, and the root's service process is restarted.
TEST(LostContribution, AResultThatIsReadStays) {
  Cluster cluster({0, 1, 0});
  for (std::uint32_t rank = 0; rank < 3; ++rank) cluster.post(rooted(cluster, rank));
  cluster.hold_moves = true;
  for (cluster.settle(); !cluster.marked(0, 0, 0); cluster.settle()) ASSERT_TRUE(cluster.finish_move(0));
  ASSERT_FALSE(cluster.fabric(1).moves.empty()) << "rank 1 reads the result";
  cluster.restart(0);
  cluster.engine(0).drop_rank(WorldRank{2});
  cluster.post(with_marks(cluster, rooted(cluster, 0)));
  cluster.settle();
  EXPECT_FALSE(cluster.completed(0, 0)) << "its buffer is read";
  cluster.hold_moves = false;
  cluster.settle();
  ASSERT_TRUE(cluster.completed(0, 0));
  ASSERT_TRUE(cluster.completed(1, 0));
  EXPECT_EQ(cluster.completion(1, 0).record.status, CompletionStatus::ok);
  EXPECT_TRUE(cluster.summed_right(1, 0, 96));
}

// A root that had failed is only known to have ended after a restart.
TEST(LostContribution, ThereIsNoResultFromARootThatHasEnded) {
  Cluster cluster({0, 1});
  cluster.post(rooted(cluster, 1));
  cluster.settle();
  cluster.restart(0);
  cluster.engine(0).restore_progress(WorldRank{0}, kGroup, 1);
  cluster.settle();
  EXPECT_TRUE(all_ended(cluster, 0, CompletionStatus::peer_lost));
}

}  // namespace
}  // namespace outrigger::engine::testing
