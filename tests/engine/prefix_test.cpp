// Scans and exscans: every bit, in any order of ranks, the number of reads, waits, and restarts.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cluster.hpp"

namespace outrigger::engine::testing {
namespace {

const std::vector<std::vector<std::uint32_t>> kRankPlaces = {{0},          {0, 0, 0, 0},    {0, 1},
                                                             {0, 1, 2, 3}, {0, 1, 0, 1, 2}, {3, 2, 1, 1, 0, 0}};

EngineLimits short_pieces() {
  EngineLimits limits;
  limits.segment_bytes = 24;
  return limits;
}

class Prefix : public ::testing::TestWithParam<Collective> {
 protected:
  [[nodiscard]] static bool excludes_own() { return GetParam() == Collective::iexscan; }
  [[nodiscard]] static std::uint32_t operands_of(std::uint32_t rank) { return rank + (excludes_own() ? 0 : 1); }

  static void post(Cluster& cluster, std::uint32_t rank, std::uint64_t bytes) {
    cluster.post(cluster.prefix(rank, 0, bytes, GetParam()));
  }
  [[nodiscard]] static bool is_right(Cluster& cluster, std::uint32_t rank, std::uint64_t bytes) {
    if (operands_of(rank) != 0) return cluster.summed_right(rank, 0, 0, bytes, operands_of(rank));
    const std::vector<std::byte>& untouched = cluster.buffers(rank, 0).receive;
    return std::ranges::all_of(untouched, [](std::byte byte) { return byte == std::byte{0xEE}; });
  }
};

TEST_P(Prefix, IsRightToTheBit) {
  for (const auto& places : kRankPlaces) {
    for (const std::uint64_t bytes : {4U, 60U, 1000U}) {
      Cluster cluster(places, short_pieces(), nullptr, {0, 0, 1, 1});
      for (std::uint32_t rank = 0; rank < places.size(); ++rank) post(cluster, rank, bytes);
      cluster.settle();
      ASSERT_TRUE(cluster.all_completed(0));
      for (std::uint32_t rank = 0; rank < places.size(); ++rank) {
        EXPECT_TRUE(is_right(cluster, rank, bytes));
        EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::ok);
        EXPECT_EQ(cluster.completion(rank, 0).record.bytes_by_reach[0], operands_of(rank) != 0 ? bytes : 0);
      }
      EXPECT_TRUE(cluster.idle());
      EXPECT_EQ(cluster.broken(), std::nullopt);
    }
  }
}

// A chain's work: one reduction of two operands per rank, except for the first.
TEST_P(Prefix, MakesEachResultOfTheOneBefore) {
  for (const auto& places : kRankPlaces) {
    const auto ranks = static_cast<std::uint32_t>(places.size());
    Cluster cluster(places, EngineLimits(), nullptr, {0, 0, 1, 1});
    for (std::uint32_t rank = 0; rank < ranks; ++rank) post(cluster, rank, 1000);
    cluster.settle();
    ASSERT_TRUE(cluster.all_completed(0));
    const std::uint32_t results = operands_of(ranks - 1);
    EXPECT_EQ(cluster.reductions_done, results == 0 ? 0 : results - 1);
  }
}

TEST_P(Prefix, TheOrderOfArrivalMakesNoDifference) {
  std::vector<std::uint32_t> order = {0, 1, 2, 3};
  do {
    Cluster cluster({0, 1, 1, 0}, short_pieces());
    for (const std::uint32_t rank : order) {
      post(cluster, rank, 200);
      cluster.settle();
    }
    ASSERT_TRUE(cluster.all_completed(0));
    for (std::uint32_t rank = 0; rank < 4; ++rank) ASSERT_TRUE(is_right(cluster, rank, 200));
    EXPECT_EQ(cluster.broken(), std::nullopt);
  } while (std::next_permutation(order.begin(), order.end()));
}

// The first ranks have their results before the last rank has arrived, though they are kept.
TEST_P(Prefix, NobodysResultWaitsForLaterRanks) {
  Cluster cluster({0, 0, 1});
  post(cluster, 0, 64);
  post(cluster, 1, 64);
  cluster.settle();
  EXPECT_TRUE(cluster.marked(1, 0, 1));
  EXPECT_FALSE(cluster.completed(0, 0));
  EXPECT_FALSE(cluster.completed(1, 0));
  post(cluster, 2, 64);
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  for (std::uint32_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(is_right(cluster, rank, 64));
}

TEST_P(Prefix, OfNothingWaitsForNobody) {
  Cluster cluster({0, 1});
  for (const std::uint32_t rank : {1U, 0U}) {
    post(cluster, rank, 0);
    cluster.settle();
    EXPECT_TRUE(cluster.completed(rank, 0));
  }
  EXPECT_TRUE(cluster.idle());
}

// Except ranks that reduce two contributions.
TEST_P(Prefix, EachAsksTheOneBefore) {
  Cluster cluster({0, 1, 2, 3}, EngineLimits(), nullptr, {0, 1, 2, 3});
  cluster.hold_moves = true;
  for (std::uint32_t rank = 0; rank < 4; ++rank) post(cluster, rank, 64);
  cluster.settle();
  const std::uint64_t requests = excludes_own() ? 1 : 2;
  EXPECT_EQ(cluster.messages_sent, 4 * 3 + requests);
  cluster.hold_moves = false;
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
}

TEST_P(Prefix, RanksThatDisagreeAreTold) {
  Cluster cluster({0, 0, 1});
  post(cluster, 0, 64);
  post(cluster, 1, 60);
  post(cluster, 2, 64);
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::mismatch);
  }
  EXPECT_TRUE(cluster.idle());
}

TEST_P(Prefix, MemoryThatIsNotThereEndsItForAllWhoNeedIt) {
  Cluster cluster({0, 1, 1});
  cluster.faulty_source = WorldRank{0};
  for (std::uint32_t rank = 0; rank < 3; ++rank) post(cluster, rank, 64);
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.completion(2, 0).record.status, CompletionStatus::memory_fault);
  EXPECT_TRUE(cluster.idle());
  EXPECT_EQ(cluster.broken(), std::nullopt);
}

TEST_P(Prefix, WhatIsNoneIsRejected) {
  const auto rejected = [](std::uint32_t rank, auto&& change) {
    Cluster cluster({0, 0});
    PostedOperation posted = cluster.prefix(rank, 0, 64, GetParam());
    change(posted);
    cluster.post(std::move(posted));
    cluster.settle();
    return cluster.completion(rank, 0).record.status == CompletionStatus::rejected;
  };
  for (const std::uint32_t rank : {0U, 1U}) {
    EXPECT_FALSE(rejected(rank, [](PostedOperation& /*posted*/) {}));
    EXPECT_TRUE(rejected(rank, [](PostedOperation& posted) { posted.receive.block_bytes = 60; }));
    EXPECT_TRUE(rejected(rank, [](PostedOperation& posted) { posted.reduction.reset(); }));
  }
  EXPECT_EQ(rejected(0, [](PostedOperation& posted) { posted.receive.block_bytes = 64; }), excludes_own());
}

// Restarts the first later rank's service process, which was reading its result, and that of the rank before.
TEST_P(Prefix, AServiceProcessThatTakesAnothersPlaceGoesOn) {
  for (const std::uint32_t killed : {0U, 1U, 2U}) {
    for (std::uint32_t moves = 0; moves < 3; ++moves) {
      Cluster cluster({0, 0, 1, 2}, short_pieces());
      for (std::uint32_t rank = 0; rank < 4; ++rank) post(cluster, rank, 96);
      cluster.hold_moves = true;
      cluster.settle();
      for (std::uint32_t move = 0; move < moves; ++move) {
        for (const std::uint32_t sp : {0U, 1U, 2U}) static_cast<void>(cluster.finish_move(sp));
        cluster.settle();
      }
      cluster.restart(killed);
      for (const std::uint32_t rank : {0U, 1U, 2U, 3U}) {
        if ((rank == 0 ? 0 : rank - 1) != killed || cluster.completed(rank, 0)) continue;
        PostedOperation again = cluster.prefix(rank, 0, 96, GetParam());
        again.marks.resize(4);
        again.marks[rank] = cluster.marked(rank, 0, rank) ? 1 : 0;
        cluster.post(std::move(again));
      }
      cluster.hold_moves = false;
      cluster.settle();
      ASSERT_TRUE(cluster.all_completed(0)) << killed << " after " << moves;
      for (std::uint32_t rank = 0; rank < 4; ++rank) EXPECT_TRUE(is_right(cluster, rank, 96));
      EXPECT_TRUE(cluster.idle());
      EXPECT_EQ(cluster.broken(), std::nullopt);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Prefix, ::testing::Values(Collective::iscan, Collective::iexscan),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace outrigger::engine::testing
