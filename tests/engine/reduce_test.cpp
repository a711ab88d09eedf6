// Reductions to one rank, and reduce_scatter.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cluster.hpp"

namespace outrigger::engine::testing {
namespace {

const std::vector<std::vector<std::uint32_t>> kPlacements = {{0}, {0, 0, 0}, {0, 1}, {0, 1, 0, 1, 2}, {3, 2, 1, 1, 0}};

EngineLimits small_pieces() {
  EngineLimits limits;
  limits.split_bytes = 16;
  limits.segment_bytes = 24;
  return limits;
}

bool untouched(Cluster& cluster, std::uint32_t rank) {
  const std::vector<std::byte>& receive = cluster.buffers(rank, 0).receive;
  return std::all_of(receive.begin(), receive.end(), [](std::byte byte) { return byte == std::byte{0xEE}; });
}

TEST(Reduce, GivesTheRootEveryBitAndOthersNothing) {
  for (const auto& placement : kPlacements) {
    for (std::uint32_t root = 0; root < placement.size(); ++root) {
      Cluster cluster(placement, small_pieces(), nullptr, {0, 0, 1, 1});
      for (std::uint32_t rank = 0; rank < placement.size(); ++rank) cluster.post(cluster.reduce(rank, 0, 100, root));
      cluster.settle();
      ASSERT_TRUE(cluster.all_completed(0));
      for (std::uint32_t rank = 0; rank < placement.size(); ++rank) {
        EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::ok);
        EXPECT_EQ(cluster.completion(rank, 0).record.bytes_by_reach[0], rank == root ? 100U : 0U);
        EXPECT_TRUE(rank == root ? cluster.summed_right(rank, 0, 100) : untouched(cluster, rank));
      }
      EXPECT_TRUE(cluster.idle());
      EXPECT_EQ(cluster.broken(), std::nullopt);
    }
  }
}

// An announcement and a release by each of the others, and the root's announcement to each.
TEST(Reduce, IsBetweenTheRootAndEachOther) {
  Cluster cluster({0, 1, 2, 3});
  for (std::uint32_t rank = 0; rank < 4; ++rank) cluster.post(cluster.reduce(rank, 0, 100, 2));
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.messages_sent, 9U);
}

TEST(Reduce, OnlyTheRootWaitsForTheLate) {
  Cluster cluster({0, 1, 1});
  for (const std::uint32_t rank : {0U, 1U}) cluster.post(cluster.reduce(rank, 0, 100, 0));
  cluster.settle();
  EXPECT_FALSE(cluster.completed(0, 0));
  EXPECT_EQ(cluster.reductions_done, 0U);
  cluster.post(cluster.reduce(2, 0, 100, 0));
  cluster.settle();
  EXPECT_TRUE(cluster.all_completed(0));
  EXPECT_TRUE(cluster.summed_right(0, 0, 100));
}

TEST(ReduceScatterBlock, GivesEachRankItsOwn) {
  for (const auto& placement : kPlacements) {
    for (const std::uint64_t block : {4U, 60U}) {
      Cluster cluster(placement, small_pieces(), nullptr, {0, 0, 1, 1});
      const auto ranks = static_cast<std::uint32_t>(placement.size());
      for (std::uint32_t rank = 0; rank < ranks; ++rank) cluster.post(cluster.reduce_scatter(rank, 0, block));
      cluster.settle();
      ASSERT_TRUE(cluster.all_completed(0));
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        EXPECT_TRUE(cluster.summed_right(rank, 0, rank * block, block));
        EXPECT_EQ(cluster.completion(rank, 0).record.bytes_by_reach[0], block);
        EXPECT_EQ(cluster.contributed_bytes[rank], ranks > 1 ? block * ranks : 0);  // read once
      }
      EXPECT_TRUE(cluster.idle());
      EXPECT_EQ(cluster.broken(), std::nullopt);
    }
  }
}

TEST(ReduceScatter, GivesEachRankItsOwnWhateverItsLength) {
  for (const auto& placement : kPlacements) {
    const auto ranks = static_cast<std::uint32_t>(placement.size());
    for (std::uint32_t kind = 0; kind < 3; ++kind) {
      std::vector<std::uint64_t> blocks;  // some empty, only one, all long
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        blocks.push_back(kind == 0 ? rank % 3 * 36 : kind == 1 ? (rank == ranks / 2 ? 200 : 0) : 60 + 4 * rank);
      }
      Cluster cluster(placement, small_pieces(), nullptr, {0, 0, 1, 1});
      for (std::uint32_t rank = 0; rank < ranks; ++rank) cluster.post(cluster.reduce_scatter(rank, 0, blocks));
      cluster.settle();
      ASSERT_TRUE(cluster.all_completed(0));
      std::uint64_t offset = 0;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::ok);
        EXPECT_TRUE(cluster.summed_right(rank, 0, offset, blocks[rank]));
        EXPECT_EQ(cluster.completion(rank, 0).record.bytes_by_reach[0], blocks[rank]);
        offset += blocks[rank];
      }
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(cluster.contributed_bytes[rank], ranks > 1 ? offset : 0);  // read once
      }
      EXPECT_TRUE(cluster.idle());
      EXPECT_EQ(cluster.broken(), std::nullopt);
    }
  }
}

TEST(ReduceScatter, APartOutsideTheVectorIsRejected) {
  const auto rejected = [](std::uint64_t offset, std::uint64_t bytes) {
    Cluster cluster({0, 0});
    PostedOperation posted = cluster.reduce_scatter(0, 0, std::vector<std::uint64_t>{16, 32});
    posted.part_offset_bytes = offset;
    posted.receive.block_bytes = bytes;
    cluster.post(std::move(posted));
    cluster.settle();
    return cluster.completion(0, 0).record.status == CompletionStatus::rejected;
  };
  EXPECT_FALSE(rejected(0, 16));
  EXPECT_FALSE(rejected(48, 0));
  EXPECT_TRUE(rejected(0, 52));
  EXPECT_TRUE(rejected(36, 16));
  EXPECT_TRUE(rejected(~std::uint64_t{3}, 16));
  EXPECT_TRUE(rejected(2, 16));
  EXPECT_TRUE(rejected(0, 6));
}

TEST(Reduce, WhatIsNoneIsRejected) {
  const auto rejected = [](bool scatters, auto&& change) {
    Cluster cluster({0, 0});
    PostedOperation posted = scatters ? cluster.reduce_scatter(0, 0, 12) : cluster.reduce(0, 0, 24, 1);
    change(posted);
    cluster.post(std::move(posted));
    cluster.settle();
    return cluster.completion(0, 0).record.status == CompletionStatus::rejected;
  };
  for (const bool scatters : {false, true}) {
    EXPECT_FALSE(rejected(scatters, [](PostedOperation& /*posted*/) {}));
    EXPECT_TRUE(rejected(scatters, [](PostedOperation& posted) { posted.receive.block_bytes = 24; }));
    EXPECT_TRUE(rejected(scatters, [](PostedOperation& posted) { posted.send.block_bytes = 26; }));
    EXPECT_TRUE(rejected(scatters, [](PostedOperation& posted) { posted.reduction.reset(); }));
  }
  EXPECT_TRUE(rejected(false, [](PostedOperation& posted) { posted.root = 2; }));
  EXPECT_TRUE(rejected(true, [](PostedOperation& posted) {
    posted.send.block_bytes = 20;  // two and a half elements each
    posted.receive.block_bytes = 10;
  }));
}

}  // namespace
}  // namespace outrigger::engine::testing
