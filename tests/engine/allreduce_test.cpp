// Allreduce: every bit, in any order of ranks, the number of reads, and restarts.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "cluster.hpp"
#include "engine/core/slices.hpp"

namespace outrigger::engine::testing {
namespace {

const std::vector<std::vector<std::uint32_t>> kGroupShapes = {
    {0}, {0, 0, 0, 0}, {0, 1}, {0, 1, 0, 1, 2}, {3, 2, 1, 1, 0, 0}};

EngineLimits small_slices() {
  EngineLimits limits;
  limits.split_bytes = 16;
  limits.segment_bytes = 24;
  return limits;
}

TEST(Slices, CoverTheVectorInWholeElements) {
  for (const std::uint64_t element : {1U, 4U, 12U, 16U}) {
    for (std::uint64_t elements = 0; elements < 70; ++elements) {
      for (const std::size_t members : {1U, 2U, 5U, 16U}) {
        for (const std::uint64_t least : {1U, 40U, 1000U}) {
          const std::vector<PairExtent> slices = cut_into_slices(elements * element, element, members, least);
          ASSERT_EQ(slices.size(), members);
          std::uint64_t next = 0;
          for (const PairExtent& slice : slices) {
            if (slice.bytes == 0) continue;
            EXPECT_EQ(static_cast<std::uint64_t>(slice.offset_bytes), next);
            EXPECT_EQ(slice.bytes % element, 0U);
            next += slice.bytes;
            EXPECT_TRUE(slice.bytes >= least || next == elements * element);
          }
          EXPECT_EQ(next, elements * element);
        }
      }
    }
  }
}

TEST(Slices, OfShortVectorsHaveOwnersAllOverTheGroup) {
  const std::vector<PairExtent> slices = cut_into_slices(64, 4, 8, 32);
  for (std::size_t owner = 0; owner < 8; ++owner) EXPECT_EQ(slices[owner].bytes, owner % 4 == 0 ? 32U : 0U);
}

TEST(Allreduce, IsRightToTheBit) {
  for (const auto& shape : kGroupShapes) {
    for (const std::uint64_t bytes : {4U, 60U, 1000U}) {
      Cluster cluster(shape, small_slices(), nullptr, {0, 0, 1, 1});
      for (std::uint32_t rank = 0; rank < shape.size(); ++rank) cluster.post(cluster.allreduce(rank, 0, bytes));
      cluster.settle();
      ASSERT_TRUE(cluster.all_completed(0));
      for (std::uint32_t rank = 0; rank < shape.size(); ++rank) {
        EXPECT_TRUE(cluster.summed_right(rank, 0, bytes));
        EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::ok);
        EXPECT_EQ(cluster.completion(rank, 0).record.bytes_by_reach[0], bytes);
      }
      EXPECT_TRUE(cluster.idle());
      EXPECT_EQ(cluster.broken(), std::nullopt);
    }
  }
}

TEST(Allreduce, ReadsEachContributionOnce) {
  for (const auto& shape : kGroupShapes) {
    if (shape.size() == 1) continue;  // nothing to reduce: it is copied
    Cluster cluster(shape, small_slices(), nullptr, {0, 0, 1, 1});
    for (std::uint32_t rank = 0; rank < shape.size(); ++rank) cluster.post(cluster.allreduce(rank, 0, 1000));
    cluster.settle();
    ASSERT_TRUE(cluster.all_completed(0));
    for (std::uint32_t rank = 0; rank < shape.size(); ++rank) EXPECT_EQ(cluster.contributed_bytes[rank], 1000U);
  }
}

// Other nodes' slices come to a node once, whatever its number of service processes; contributions come one by one.
TEST(Allreduce, ASliceComesToANodeOnce) {
  Cluster cluster({0, 1, 2, 3}, {}, nullptr, {0, 0, 1, 1});
  for (std::uint32_t rank = 0; rank < 4; ++rank) cluster.post(cluster.allreduce(rank, 0, 4 * 16384));
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.moves_between_nodes - cluster.reductions_between_nodes, 4U);
}

// A rank releases all contributions of another service process by one message.
TEST(Allreduce, OneReleaseGoesToEachServiceProcess) {
  constexpr std::size_t kRelease = 2;  // index in peer::Body
  Cluster cluster({0, 0, 0, 1, 1, 2});
  for (std::uint32_t rank = 0; rank < 6; ++rank) cluster.post(cluster.allreduce(rank, 0, 100));
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  for (std::uint32_t sp = 0; sp < 3; ++sp) {
    const std::uint64_t local_ranks = 3 - sp;
    EXPECT_EQ(cluster.engine(sp).counters().sent[kRelease].count, 2 * local_ranks);
  }
}

TEST(Allreduce, NothingIsDoneBeforeTheLastHasCome) {
  Cluster cluster({0, 0, 1});
  for (const std::uint32_t rank : {2U, 0U}) cluster.post(cluster.allreduce(rank, 0, 100));
  cluster.settle();
  EXPECT_EQ(cluster.reductions_done, 0U);
  EXPECT_EQ(cluster.moves_done, 0U);
  cluster.post(cluster.allreduce(1, 0, 100));
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  for (std::uint32_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(cluster.summed_right(rank, 0, 100));
}

TEST(Allreduce, TheOrderOfArrivalMakesNoDifference) {
  std::vector<std::uint32_t> order = {0, 1, 2, 3};
  do {
    Cluster cluster({0, 1, 0, 1}, small_slices());
    for (const std::uint32_t rank : order) {
      cluster.post(cluster.allreduce(rank, 0, 200));
      cluster.settle();
    }
    ASSERT_TRUE(cluster.all_completed(0));
    for (std::uint32_t rank = 0; rank < 4; ++rank) ASSERT_TRUE(cluster.summed_right(rank, 0, 200));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Allreduce, OfNothingWaitsForNobody) {
  Cluster cluster({0, 1});
  cluster.post(cluster.allreduce(1, 0, 0));
  cluster.settle();
  EXPECT_TRUE(cluster.completed(1, 0));
  cluster.post(cluster.allreduce(0, 0, 0));
  cluster.settle();
  EXPECT_TRUE(cluster.completed(0, 0));
  EXPECT_TRUE(cluster.idle());
}

TEST(Allreduce, RanksThatReduceDifferentlyAreTold) {
  const auto posted_by = [](Cluster& cluster, std::uint32_t rank, std::uint32_t kind) {
    if (kind == 1) return cluster.allreduce(rank, 0, 64, {ReduceOperation::max, ElementType::float32});
    if (kind == 2) return cluster.allreduce(rank, 0, 64, {ReduceOperation::sum, ElementType::int32});
    return cluster.allreduce(rank, 0, kind == 3 ? 60 : 64);
  };
  for (const std::uint32_t kind : {1U, 2U, 3U}) {
    Cluster cluster({0, 0, 1});
    for (std::uint32_t rank = 0; rank < 3; ++rank) cluster.post(posted_by(cluster, rank, rank == 2 ? kind : 0));
    cluster.settle();
    ASSERT_TRUE(cluster.all_completed(0));
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::mismatch);
    }
    EXPECT_EQ(cluster.reductions_done, 0U);
    EXPECT_TRUE(cluster.idle());
  }
}

TEST(Allreduce, WhatIsNoneIsRejected) {
  const auto rejected = [](auto&& change) {
    Cluster cluster({0});
    PostedOperation posted = cluster.allreduce(0, 0, 64);
    change(posted);
    cluster.post(std::move(posted));
    cluster.settle();
    return cluster.completion(0, 0).record.status == CompletionStatus::rejected;
  };
  EXPECT_FALSE(rejected([](PostedOperation& /*posted*/) {}));
  EXPECT_TRUE(rejected([](PostedOperation& posted) { posted.reduction.reset(); }));
  EXPECT_TRUE(rejected([](PostedOperation& posted) { posted.receive.block_bytes = 60; }));
  EXPECT_TRUE(rejected([](PostedOperation& posted) { posted.send.block_bytes = posted.receive.block_bytes = 63; }));
  EXPECT_TRUE(rejected([](PostedOperation& posted) { posted.receive.stride_bytes = 64; }));
  EXPECT_TRUE(rejected([](PostedOperation& posted) { posted.send.extents.resize(1); }));
  EXPECT_TRUE(rejected([](PostedOperation& posted) { posted.own_block_done = true; }));
}

TEST(Allreduce, MemoryThatIsNotThereEndsItForAll) {
  Cluster cluster({0, 1, 1});
  cluster.faulty_source = WorldRank{0};
  for (std::uint32_t rank = 0; rank < 3; ++rank) cluster.post(cluster.allreduce(rank, 0, 64));
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::memory_fault);
  }
  EXPECT_TRUE(cluster.idle());
}

// A replacement service process reduces again, but not into memory that is still being read.
TEST(Allreduce, ARestartWaitsForThoseWhoRead) {
  EngineLimits limits;
  limits.segment_bytes = 64;  // two pieces, one of which is placed when the service process dies
  Cluster cluster({0, 1}, limits);
  const auto post = [&](std::uint32_t rank) { cluster.post(cluster.allreduce(rank, 0, 128)); };
  post(0);
  post(1);
  cluster.hold_moves = true;
  cluster.settle();
  ASSERT_TRUE(cluster.finish_move(0));  // rank 0 owns all of it: one piece is reduced
  cluster.settle();
  ASSERT_EQ(cluster.fabric(1).moves.size(), 1U);  // and rank 1's service process reads it there
  cluster.restart(0);
  post(0);
  cluster.settle();
  EXPECT_TRUE(cluster.fabric(0).moves.empty()) << "reduces where another one reads";
  ASSERT_TRUE(cluster.finish_move(1));
  cluster.settle();
  EXPECT_FALSE(cluster.fabric(0).moves.empty());
  cluster.hold_moves = false;
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  for (std::uint32_t rank = 0; rank < 2; ++rank) EXPECT_TRUE(cluster.summed_right(rank, 0, 128));
  EXPECT_TRUE(cluster.idle());
  EXPECT_EQ(cluster.broken(), std::nullopt);
}

// A restarted owner waits for those who read there, and they for its slice.
TEST(Allreduce, AnOwnerIsToldOfReadsWithTheReleasesButARestartedOneAtOnce) {
  constexpr std::size_t kDone = 7;
  constexpr std::uint64_t kVector = 96;
  EngineLimits limits;
  limits.split_bytes = 16;
  limits.segment_bytes = 16;  // rank 0's slice has two pieces, and so have the others
  for (const bool restarts : {false, true}) {
    Cluster cluster({0, 1, 2}, limits);
    const auto done = [&cluster] { return cluster.engine(1).counters().sent[kDone].count; };
    for (std::uint32_t rank = 0; rank < 3; ++rank) cluster.post(cluster.allreduce(rank, 0, kVector));
    cluster.hold_moves = true;
    cluster.settle();
    ASSERT_TRUE(cluster.finish_move(0));  // reduces a piece
    cluster.settle();
    for (int own = 0; own < 3; ++own) ASSERT_TRUE(cluster.finish_move(1));  // two of its own, then that piece
    cluster.settle();
    ASSERT_EQ(done(), 0U);
    if (restarts) {
      cluster.restart(0);
      cluster.post(cluster.allreduce(0, 0, kVector));
    }
    cluster.hold_moves = false;
    cluster.settle();
    ASSERT_TRUE(cluster.all_completed(0));
    EXPECT_EQ(done(), 4U);  // of two pieces of each other rank
    for (std::uint32_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(cluster.summed_right(rank, 0, kVector));
    EXPECT_TRUE(cluster.idle());
    EXPECT_EQ(cluster.broken(), std::nullopt);
  }
}

// An owner answers the readers of a slice in one piece as if they had asked. Those that have been restarted ask.
TEST(Allreduce, OwnersOfferShortSlices) {
  constexpr std::size_t kRequest = 5;
  constexpr std::size_t kAnswer = 6;
  constexpr std::uint64_t kVector = 96;
  struct Case {
    std::vector<std::uint32_t> sp_of_rank;
    std::vector<std::uint32_t> node_of_sp;
    bool restarts;
    std::uint64_t requests;
    std::uint64_t answers;
  };
  const std::vector<Case> cases = {
      {{0, 1, 2}, {0, 1, 2}, false, 0, 6},
      {{0, 1, 2}, {0, 1, 2}, true, 4, 6},          // the restarted one asks both others, and they ask it
      {{0, 1, 2, 3}, {0, 0, 1, 1}, false, 4, 12},  // for each slice of another node one of its service processes
  };
  for (const Case& each : cases) {
    EngineLimits limits;
    limits.split_bytes = 16;
    Cluster cluster(each.sp_of_rank, limits, nullptr, each.node_of_sp);
    const auto count = [&cluster](std::size_t kind) {
      std::uint64_t sent = 0;
      for (std::uint32_t sp = 0; sp < cluster.services(); ++sp) sent += cluster.engine(sp).counters().sent[kind].count;
      return sent;
    };
    const auto last = static_cast<std::uint32_t>(cluster.ranks() - 1);
    for (std::uint32_t rank = 0; rank < last; ++rank) cluster.post(cluster.allreduce(rank, 0, kVector));
    if (each.restarts) cluster.restart(last);
    cluster.post(cluster.allreduce(last, 0, kVector));
    cluster.settle();
    ASSERT_TRUE(cluster.all_completed(0));
    EXPECT_EQ(count(kRequest), each.requests);
    EXPECT_EQ(count(kAnswer), each.answers);
    for (std::uint32_t rank = 0; rank <= last; ++rank) EXPECT_TRUE(cluster.summed_right(rank, 0, kVector));
    EXPECT_TRUE(cluster.idle());
    EXPECT_EQ(cluster.broken(), std::nullopt);
  }
}

// Some ranks have posted, then one of them is lost, then the others post: they do not wait for what it offered.
void lose_after_posts(const std::vector<std::uint32_t>& shape, const std::vector<std::uint32_t>& order,
                      std::size_t posts, std::uint32_t lost) {
  EngineLimits limits;
  limits.split_bytes = 16;
  Cluster cluster(shape, limits);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == posts) cluster.engine(shape[lost]).drop_rank(WorldRank{lost});
    cluster.settle();
    cluster.post(cluster.allreduce(order[i], 0, 96));
    cluster.settle();
  }
  for (const std::uint32_t rank : order) {
    if (rank == lost) continue;
    ASSERT_TRUE(cluster.completed(rank, 0)) << fmt::format("{} of {} lost after {} posts", lost, order, posts);
    EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::peer_lost);
  }
  EXPECT_TRUE(cluster.idle());
  EXPECT_EQ(cluster.broken(), std::nullopt);
}

TEST(Allreduce, ALostRankEndsItForThoseWhoPostLater) {
  const std::vector<std::vector<std::uint32_t>> shapes = {{0, 1}, {0, 1, 2}, {0, 0, 1}, {0, 0, 1, 2}};
  for (const std::vector<std::uint32_t>& shape : shapes) {
    std::vector<std::uint32_t> order(shape.size());
    std::iota(order.begin(), order.end(), 0U);
    do {
      for (std::size_t posts = 1; posts < order.size(); ++posts) {
        for (std::size_t lost = 0; lost < posts; ++lost) lose_after_posts(shape, order, posts, order[lost]);
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

// Marked slices are not reduced again.
TEST(Allreduce, AMarkedSliceStays) {
  Cluster cluster({0, 0}, small_slices());
  cluster.post(cluster.allreduce(0, 0, 32));
  cluster.post(cluster.allreduce(1, 0, 32));
  cluster.hold_moves = true;
  cluster.settle();
  while (!cluster.marked(1, 0, 1)) {
    ASSERT_TRUE(cluster.finish_move(0));
    cluster.settle();
  }
  cluster.restart(0);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    PostedOperation again = cluster.allreduce(rank, 0, 32);
    again.marks.resize(2);
    for (std::uint32_t slice = 0; slice < 2; ++slice) again.marks[slice] = cluster.marked(rank, 0, slice) ? 1 : 0;
    cluster.post(std::move(again));
  }
  cluster.hold_moves = false;
  const std::uint64_t before = cluster.reductions_done;
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.reductions_done - before, 1U);  // of the other slice
  for (std::uint32_t rank = 0; rank < 2; ++rank) EXPECT_TRUE(cluster.summed_right(rank, 0, 32));
}

// Each contribution goes to the slice's owner, unless contributions are combined before; each slice goes to each other
// node. Long slices are sent only on request.
TEST(Allreduce, ShortSlicesAreSentBeforeTheyAreAskedFor) {
  struct Case {
    std::vector<std::uint32_t> sp_of_rank;
    std::vector<std::uint32_t> node_of_sp;
    ElementType type;
    std::uint64_t bytes;
    std::size_t blocks;
    std::uint64_t shortest_bytes = 0;
    std::uint64_t split_bytes = 16;
  };
  const std::vector<Case> cases = {
      {{0, 1, 2, 3}, {0, 1, 2, 3}, ElementType::int32, 160, 12 + 12},
      {{0, 0, 1, 1}, {0, 1}, ElementType::float32, 160, 8 + 4, 40},
      {{0, 0, 1, 1}, {0, 1}, ElementType::float32, 160, 4},             // two slices for each service process
      {{0, 0, 1, 1}, {0, 1}, ElementType::float32, 160, 4 + 2, 0, 80},  // one for each
      {{0, 0, 1, 1}, {0, 1}, ElementType::int32, 160, 4},
      {{0, 0, 1, 1}, {0, 0}, ElementType::int32, 160, 0},
      {{0, 1, 2, 3}, {0, 1, 2, 3}, ElementType::int32, 4000, 0},  // more than one piece each
      {{0, 1, 2, 3}, {0, 1, 2, 3}, ElementType::int32, 336, 0},   // long
  };
  for (const Case& each : cases) {
    EngineLimits limits;
    limits.split_bytes = each.split_bytes;
    limits.segment_bytes = 100;
    limits.short_slice_bytes = 80;
    limits.shortest_slice_bytes = each.shortest_bytes;
    Cluster cluster(each.sp_of_rank, limits, nullptr, each.node_of_sp);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      cluster.post(cluster.allreduce(rank, 0, each.bytes, {ReduceOperation::max, each.type}));
    }
    cluster.settle();
    ASSERT_TRUE(cluster.all_completed(0));
    std::vector<BlockId> sent;
    std::vector<BlockId> withdrawn;
    for (std::uint32_t sp = 0; sp < cluster.services(); ++sp) {
      const ClusterFabric& fabric = cluster.fabric(sp);
      sent.insert(sent.end(), fabric.eager.begin(), fabric.eager.end());
      withdrawn.insert(withdrawn.end(), fabric.withdrawn.begin(), fabric.withdrawn.end());
    }
    EXPECT_EQ(sent.size(), each.blocks);
    std::ranges::sort(sent);
    std::ranges::sort(withdrawn);
    EXPECT_EQ(sent, withdrawn);
  }
}

}  // namespace
}  // namespace outrigger::engine::testing
