// Allreduce at one rank: every bit, the number of messages, failures, and restarts.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "cluster.hpp"

namespace outrigger::engine::testing {
namespace {

// Indexes in peer::Body.
constexpr std::size_t kAnnounce = 0;
constexpr std::size_t kRelease = 2;

const std::vector<std::vector<std::uint32_t>> kRootedShapes = {
    {0}, {0, 0, 0, 0}, {0, 1}, {0, 1, 0, 1, 2}, {3, 2, 1, 1, 0, 0}};

PostedOperation rooted(Cluster& cluster, std::uint32_t rank, std::uint64_t bytes,
                       const Reduction& reduction = {ReduceOperation::sum, ElementType::float32}) {
  return cluster.allreduce(rank, 0, bytes, reduction, Algorithm::rooted);
}

void post_all(Cluster& cluster, std::uint64_t bytes) {
  for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) cluster.post(rooted(cluster, rank, bytes));
}

bool all_have(Cluster& cluster, CompletionStatus status) {
  for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
    if (!cluster.completed(rank, 0) || cluster.completion(rank, 0).record.status != status) return false;
  }
  return true;
}

bool all_summed_right(Cluster& cluster, std::uint64_t bytes) {
  for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
    if (!cluster.summed_right(rank, 0, bytes)) return false;
  }
  return true;
}

std::uint64_t sent(Cluster& cluster, std::size_t kind) {
  std::uint64_t count = 0;
  for (std::uint32_t sp = 0; sp < cluster.services(); ++sp) count += cluster.engine(sp).counters().sent[kind].count;
  return count;
}

// All contributions are there, and nothing is copied or reduced.
void post_all_and_hold(Cluster& cluster) {
  post_all(cluster, 64);
  cluster.hold_moves = true;
  cluster.settle();
}

void must_end_well_without_holds(Cluster& cluster) {
  cluster.hold_moves = false;
  cluster.settle();
  EXPECT_TRUE(all_have(cluster, CompletionStatus::ok));
  EXPECT_TRUE(all_summed_right(cluster, 64));
}

TEST(AllreduceRooted, IsRightToTheBit) {
  for (const auto& shape : kRootedShapes) {
    for (const std::uint64_t bytes : {4U, 60U, 1000U}) {
      Cluster cluster(shape, {}, nullptr, {0, 0, 1, 1});
      post_all(cluster, bytes);
      cluster.settle();
      EXPECT_TRUE(all_have(cluster, CompletionStatus::ok));
      EXPECT_TRUE(all_summed_right(cluster, bytes));
      for (std::uint32_t rank = 0; rank < shape.size(); ++rank) {
        EXPECT_EQ(cluster.completion(rank, 0).record.bytes_by_reach[0], bytes);
      }
      EXPECT_TRUE(cluster.idle());
      EXPECT_EQ(cluster.broken(), std::nullopt);
    }
  }
}

TEST(AllreduceRooted, TheOrderOfArrivalMakesNoDifference) {
  std::vector<std::uint32_t> order(4);
  std::iota(order.begin(), order.end(), 0);
  do {
    Cluster cluster({0, 1, 0, 1});
    for (const std::uint32_t rank : order) {
      EXPECT_EQ(cluster.reductions_done, 0U);
      cluster.post(rooted(cluster, rank, 200));
      cluster.settle();
    }
    ASSERT_TRUE(all_have(cluster, CompletionStatus::ok));
    EXPECT_TRUE(all_summed_right(cluster, 200));
  } while (std::next_permutation(order.begin(), order.end()));
}

// To the root and back; other service processes exchange nothing.
TEST(AllreduceRooted, OnlyTheRootsServiceProcessMeetsTheOthers) {
  Cluster cluster({0, 0, 1, 1, 2});
  post_all(cluster, 64);
  cluster.settle();
  ASSERT_TRUE(all_have(cluster, CompletionStatus::ok));
  EXPECT_EQ(sent(cluster, kAnnounce), 3U + 2U);  // of three ranks, and of the root to two service processes
  EXPECT_EQ(sent(cluster, kRelease), 2U + 3U);
  EXPECT_EQ(cluster.messages_sent, 10U);
}

TEST(AllreduceRooted, ContributionsAndResultTravelWithTheAnnouncements) {
  Cluster cluster({0, 0, 1, 1, 2});
  post_all(cluster, 64);
  cluster.settle();
  ASSERT_TRUE(all_have(cluster, CompletionStatus::ok));
  for (const std::uint32_t sp : {0U, 1U, 2U}) {
    EXPECT_EQ(cluster.fabric(sp).eager.size(), sp == 0 ? 3U : 3U - sp);
    EXPECT_EQ(cluster.fabric(sp).withdrawn.size(), cluster.fabric(sp).eager.size());
  }
}

TEST(AllreduceRooted, OfNothingWaitsForNobody) {
  Cluster cluster({0, 1});
  cluster.post(rooted(cluster, 1, 0));
  cluster.settle();
  EXPECT_TRUE(cluster.completed(1, 0));
  cluster.post(rooted(cluster, 0, 0));
  cluster.settle();
  EXPECT_TRUE(cluster.completed(0, 0));
  EXPECT_TRUE(cluster.idle());
}

TEST(AllreduceRooted, RanksThatReduceDifferentlyAreTold) {
  for (const std::uint32_t other : {0U, 1U, 2U, 3U}) {
    Cluster cluster({0, 0, 1, 2});
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const ReduceOperation operation = rank == other ? ReduceOperation::max : ReduceOperation::sum;
      cluster.post(rooted(cluster, rank, 64, {operation, ElementType::float32}));
    }
    cluster.settle();
    EXPECT_TRUE(all_have(cluster, CompletionStatus::mismatch));
    EXPECT_EQ(cluster.reductions_done, 0U);
    EXPECT_TRUE(cluster.idle());
  }
}

TEST(AllreduceRooted, MemoryThatIsNotThereEndsItForAll) {
  Cluster cluster({0, 1, 1, 2});
  cluster.faulty_source = WorldRank{0};
  post_all(cluster, 64);
  cluster.settle();
  EXPECT_TRUE(all_have(cluster, CompletionStatus::memory_fault));
  EXPECT_TRUE(cluster.idle());
}

// The root has not announced anything by then, so no peer could answer it.
TEST(AllreduceRooted, ARankThatIsGoneBeforeItPostsEndsItForAll) {
  Cluster cluster({0, 1, 2});
  cluster.engine(2).drop_rank(WorldRank{2});
  for (const std::uint32_t rank : {0U, 1U}) cluster.post(rooted(cluster, rank, 64));
  cluster.settle();
  EXPECT_FALSE(cluster.completed(0, 0));
  for (int looks = 0; looks < 2; ++looks) {
    for (const std::uint32_t sp : {0U, 1U}) static_cast<void>(cluster.engine(sp).look_for_passed());
    cluster.settle();
  }
  for (const std::uint32_t rank : {0U, 1U}) {
    ASSERT_TRUE(cluster.completed(rank, 0));
    EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::peer_lost);
  }
}

// The result is in the root's buffer, so it is announced again and not made again.
TEST(AllreduceRooted, ARestartedRootSendsTheResultAgain) {
  Cluster cluster({0, 1, 2});
  post_all_and_hold(cluster);
  ASSERT_TRUE(cluster.finish_move(0));
  cluster.settle();
  ASSERT_TRUE(cluster.marked(0, 0, 0));
  cluster.restart(0);
  PostedOperation again = rooted(cluster, 0, 64);
  again.marks = {1, 0, 0};
  cluster.post(std::move(again));
  must_end_well_without_holds(cluster);
  EXPECT_EQ(cluster.reductions_done, 2U);  // of three operands, once
  EXPECT_TRUE(cluster.idle());
}

TEST(AllreduceRooted, ARestartedRootWithoutTheResultMakesItAgain) {
  Cluster cluster({0, 1, 2});
  post_all_and_hold(cluster);
  cluster.restart(0);
  cluster.post(rooted(cluster, 0, 64));
  must_end_well_without_holds(cluster);
  EXPECT_TRUE(cluster.idle());
}

// The root keeps the result until all have it.
TEST(AllreduceRooted, ARestartedServiceProcessGetsTheResultAgain) {
  Cluster cluster({0, 1, 2});
  post_all_and_hold(cluster);
  ASSERT_TRUE(cluster.finish_move(0));
  cluster.settle();
  ASSERT_TRUE(cluster.finish_move(2));
  cluster.settle();
  EXPECT_TRUE(cluster.completed(2, 0));
  EXPECT_FALSE(cluster.completed(0, 0));
  cluster.restart(1);
  cluster.post(rooted(cluster, 1, 64));
  must_end_well_without_holds(cluster);
  EXPECT_TRUE(cluster.idle());
}

}  // namespace
}  // namespace outrigger::engine::testing
