// Barriers: no rank leaves before all have arrived, with few messages, with restarts.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "cluster.hpp"

namespace outrigger::engine::testing {
namespace {

struct BarrierPlacement {
  std::vector<std::uint32_t> sp_of_rank;
  std::vector<std::uint32_t> node_of_sp;
  [[nodiscard]] std::uint32_t ranks() const { return static_cast<std::uint32_t>(sp_of_rank.size()); }
};
const std::array<BarrierPlacement, 5> kBarrierPlacements{
    BarrierPlacement{{0, 0, 0}, {0}}, BarrierPlacement{{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}},
    BarrierPlacement{{0, 0, 1, 1, 2, 2, 3, 3}, {0, 0, 1, 1}},
    BarrierPlacement{{3, 0, 2, 1, 0, 2, 5, 4}, {0, 1, 0, 2, 2, 1}}, BarrierPlacement{{0, 1, 1, 0}, {0, 0}}};

TEST(Barrier, NobodyLeavesBeforeTheLastHasCome) {
  for (const BarrierPlacement& placement : kBarrierPlacements) {
    for (std::uint32_t last = 0; last < placement.ranks(); ++last) {
      Cluster cluster(placement.sp_of_rank, {}, nullptr, placement.node_of_sp);
      for (std::uint32_t rank = 0; rank < placement.ranks(); ++rank) {
        if (rank != last) cluster.post(cluster.barrier(rank, 0));
      }
      cluster.settle();
      for (std::uint32_t rank = 0; rank < placement.ranks(); ++rank) EXPECT_FALSE(cluster.completed(rank, 0));
      cluster.post(cluster.barrier(last, 0));
      cluster.settle();
      ASSERT_TRUE(cluster.all_completed(0));
      for (std::uint32_t rank = 0; rank < placement.ranks(); ++rank) {
        EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::ok);
      }
      EXPECT_EQ(cluster.moves_done, 0U);
      EXPECT_TRUE(cluster.idle());
      EXPECT_EQ(cluster.broken(), std::nullopt);
    }
  }
}

// Along each edge of the tree of service processes an announcement each way and a release.
TEST(Barrier, SendsThreeMessagesForEachOtherServiceProcess) {
  for (const BarrierPlacement& placement : kBarrierPlacements) {
    Cluster cluster(placement.sp_of_rank, {}, nullptr, placement.node_of_sp);
    for (std::uint32_t rank = 0; rank < placement.ranks(); ++rank) cluster.post(cluster.barrier(rank, 0));
    cluster.settle();
    EXPECT_EQ(cluster.messages_sent, 3 * (cluster.services() - 1));
  }
}

TEST(Barrier, KeptMemoryIsNoReasonToLeave) {
  Cluster cluster({0, 0});
  PostedOperation early = cluster.barrier(1, 0);
  early.kept = true;
  cluster.post(std::move(early));
  cluster.settle();
  EXPECT_TRUE(cluster.fabric(0).told_filled.empty());
}

// Every service process is restarted before the last rank has arrived, and again when some have left.
TEST(Barrier, IsReplayed) {
  for (const BarrierPlacement& placement : kBarrierPlacements) {
    for (std::uint32_t restarted = 0; restarted < placement.node_of_sp.size(); ++restarted) {
      for (const std::uint32_t late : {0U, placement.ranks() - 1}) {
        Cluster cluster(placement.sp_of_rank, {}, nullptr, placement.node_of_sp);
        const auto replay = [&] {
          cluster.restart(restarted);
          for (std::uint32_t rank = 0; rank < placement.ranks(); ++rank) {
            if (placement.sp_of_rank[rank] != restarted) continue;
            const bool done = cluster.completed(rank, 0);
            if (!done && rank != late) cluster.post(cluster.barrier(rank, 0));
            if (done || rank != late) {
              cluster.engine(restarted).restore_progress(WorldRank{rank}, GroupId{1, 1}, done ? 1 : 0);
            }
          }
        };
        for (std::uint32_t rank = 0; rank < placement.ranks(); ++rank) {
          if (rank != late) cluster.post(cluster.barrier(rank, 0));
        }
        cluster.settle();
        replay();
        cluster.settle();
        for (std::uint32_t rank = 0; rank < placement.ranks(); ++rank) EXPECT_FALSE(cluster.completed(rank, 0));
        cluster.post(cluster.barrier(late, 0));
        for (int step = 0; step < 3; ++step) {
          for (std::uint32_t sp = 0; sp < cluster.services(); ++sp) static_cast<void>(cluster.engine(sp).run());
        }
        if (placement.sp_of_rank[late] != restarted) replay();
        cluster.settle();
        ASSERT_TRUE(cluster.all_completed(0)) << "service process " << restarted << ", late " << late;
        EXPECT_TRUE(cluster.idle());
      }
    }
  }
}

TEST(Barrier, OneWhoCallsSomethingElseIsFoundAndNobodyHangs) {
  for (const BarrierPlacement& placement : kBarrierPlacements) {
    for (std::uint32_t other = 0; other < placement.ranks(); ++other) {
      Cluster cluster(placement.sp_of_rank, {}, nullptr, placement.node_of_sp);
      for (std::uint32_t rank = 0; rank < placement.ranks(); ++rank) {
        PostedOperation posted = cluster.barrier(rank, 0);
        if (rank == other) posted.digest ^= 1;
        cluster.post(std::move(posted));
      }
      cluster.settle();
      ASSERT_TRUE(cluster.all_completed(0));
      EXPECT_EQ(cluster.completion(other, 0).record.status, CompletionStatus::mismatch);
      EXPECT_TRUE(cluster.idle());
    }
  }
}

}  // namespace
}  // namespace outrigger::engine::testing
