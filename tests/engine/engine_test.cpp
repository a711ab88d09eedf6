// Whole operations: both algorithms, one to several service processes, and all unusual cases.
#include <gtest/gtest.h>

#include "cluster.hpp"

namespace outrigger::engine::testing {
namespace {

class BothAlgorithms : public ::testing::TestWithParam<Algorithm> {};

INSTANTIATE_TEST_SUITE_P(Engine, BothAlgorithms, ::testing::Values(Algorithm::ring_pull, Algorithm::scatter_dest),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });

const std::vector<std::vector<std::uint32_t>> kShapes = {
    {0}, {0, 0, 0, 0}, {0, 1}, {0, 1, 0, 1, 2}, {2, 2, 1, 1, 0, 0}};

TEST_P(BothAlgorithms, MovesEveryByte) {
  for (const auto& shape : kShapes) {
    Cluster cluster(shape);
    for (std::uint32_t rank = 0; rank < shape.size(); ++rank) cluster.post(cluster.operation(rank, 0, 100, GetParam()));
    cluster.settle();
    ASSERT_TRUE(cluster.all_completed(0));
    for (std::uint32_t rank = 0; rank < shape.size(); ++rank) {
      EXPECT_TRUE(cluster.bytes_right(rank, 0, 100));
      const fabric::CompletionRecord& record = cluster.completion(rank, 0).record;
      EXPECT_EQ(record.status, CompletionStatus::ok);
      EXPECT_EQ(record.bytes_by_reach[0], 100 * shape.size());
      for (std::uint32_t source = 0; source < shape.size(); ++source) EXPECT_TRUE(cluster.marked(rank, 0, source));
    }
    EXPECT_TRUE(cluster.idle());
    EXPECT_EQ(cluster.broken(), std::nullopt);
  }
}

// Round-robin from the next one, wherever its ranks are in the group.
TEST_P(BothAlgorithms, EachSpeaksFirstToTheNextAndNoneIsEverybodysFirst) {
  for (const std::vector<std::uint32_t>& shape : {std::vector<std::uint32_t>{0, 1, 2, 3}, {0, 1, 2, 3, 0, 1, 2, 3}}) {
    Cluster cluster(shape);
    cluster.hold_messages = true;
    for (std::uint32_t rank = 0; rank < shape.size(); ++rank) cluster.post(cluster.operation(rank, 0, 100, GetParam()));
    cluster.settle();
    std::vector<std::vector<std::uint32_t>> heard_by(4);
    for (const Cluster::Letter& letter : cluster.letters) heard_by[letter.from.value()].push_back(letter.to.value());
    for (std::uint32_t sp = 0; sp < 4; ++sp) {
      ASSERT_GE(heard_by[sp].size(), 3U);
      for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(heard_by[sp][i], (sp + 1 + i) % 4) << "of " << sp;
    }
    cluster.hold_messages = false;
    cluster.settle();
    ASSERT_TRUE(cluster.all_completed(0));
    for (std::uint32_t rank = 0; rank < shape.size(); ++rank) EXPECT_TRUE(cluster.bytes_right(rank, 0, 100));
  }
}

TEST_P(BothAlgorithms, NobodyCompletesBeforeTheLastHasPosted) {
  Cluster cluster({0, 0, 1, 1});
  for (std::uint32_t rank = 0; rank < 3; ++rank) cluster.post(cluster.operation(rank, 0, 10, GetParam()));
  cluster.settle();
  for (std::uint32_t rank = 0; rank < 4; ++rank) EXPECT_FALSE(cluster.completed(rank, 0));
  cluster.post(cluster.operation(3, 0, 10, GetParam()));
  cluster.settle();
  EXPECT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.completion(3, 0).record.late_announcements, 3U);
  EXPECT_EQ(cluster.completion(0, 0).record.late_announcements, 0U);
}

TEST_P(BothAlgorithms, ZeroBytesWaitForNobody) {
  Cluster cluster({0, 1});
  cluster.post(cluster.operation(0, 0, 0, GetParam()));
  cluster.settle();
  EXPECT_TRUE(cluster.completed(0, 0));
  EXPECT_FALSE(cluster.completed(1, 0));
  cluster.post(cluster.operation(1, 0, 0, GetParam()));
  cluster.settle();
  EXPECT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.moves_done, 0U);
  EXPECT_TRUE(cluster.idle());
}

TEST_P(BothAlgorithms, OwnBlockDoneIsNotMoved) {
  Cluster cluster({0, 0});
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    PostedOperation operation = cluster.operation(rank, 0, 8, GetParam());
    operation.own_block_done = true;
    cluster.post(std::move(operation));
  }
  cluster.settle();
  EXPECT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.moves_done, 2U);
  EXPECT_FALSE(cluster.marked(0, 0, 0));
}

TEST_P(BothAlgorithms, TheWindowBoundsMovesInFlight) {
  EngineLimits limits;
  limits.window_moves = 3;
  Cluster cluster({0, 0, 0, 0, 0, 0}, limits);
  for (std::uint32_t rank = 0; rank < 6; ++rank) cluster.post(cluster.operation(rank, 0, 8, GetParam()));
  cluster.settle();
  EXPECT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.moves_done, 36U);
  EXPECT_EQ(cluster.most_moves_in_flight, 3U);
}

// Moves within the node may wait for ranks that compute.
TEST_P(BothAlgorithms, NearMovesWithAWindowOfTheirOwnHoldUpNoOthers) {
  for (const bool own_window : {false, true}) {
    EngineLimits limits;
    limits.window_moves = 1;
    limits.near_window_moves = own_window ? 2 : 0;
    Cluster cluster({0, 0, 1}, limits);
    cluster.hold_moves = true;
    for (std::uint32_t rank = 0; rank < 3; ++rank) cluster.post(cluster.operation(rank, 0, 8, GetParam()));
    cluster.settle();
    EXPECT_EQ(cluster.most_moves_in_flight, own_window ? 2U : 1U);
    EXPECT_FALSE(cluster.idle());
    cluster.hold_moves = false;
    cluster.settle();
    EXPECT_TRUE(cluster.all_completed(0));
    EXPECT_EQ(cluster.moves_done, 9U);
    EXPECT_EQ(cluster.broken(), std::nullopt);
    EXPECT_TRUE(cluster.idle());
  }
}

TEST_P(BothAlgorithms, TooManyBytesAreTruncatedAtTheDestinationOnly) {
  Cluster cluster({0, 1});
  cluster.post(cluster.operation(0, 0, 20, GetParam()));
  PostedOperation small = cluster.operation(1, 0, 20, GetParam());
  small.receive.block_bytes = 5;  // room for 5 of the 20
  cluster.post(std::move(small));
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.completion(0, 0).record.status, CompletionStatus::ok);
  EXPECT_EQ(cluster.completion(1, 0).record.status, CompletionStatus::truncated);
  EXPECT_EQ(cluster.buffers(1, 0).receive[4], Cluster::pattern(0, 1, 4));
  EXPECT_EQ(cluster.buffers(1, 0).receive[5], std::byte{0xEE});
  EXPECT_TRUE(cluster.idle());
}

TEST_P(BothAlgorithms, FewerBytesThanExpectedAreFineAndNoneDoesNotHang) {
  for (const std::uint64_t sent : {7U, 0U}) {
    Cluster cluster({0, 1, 0});
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      PostedOperation operation = cluster.operation(rank, 0, 20, GetParam());
      operation.send.block_bytes = sent;
      cluster.post(std::move(operation));
      cluster.settle();
    }
    ASSERT_TRUE(cluster.all_completed(0));
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::ok);
      EXPECT_EQ(cluster.buffers(rank, 0).receive[20 + sent], std::byte{0xEE});
    }
    EXPECT_TRUE(cluster.idle());
  }
}

TEST_P(BothAlgorithms, DisagreementIsToldToBothSides) {
  Cluster cluster({0, 1, 1});
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    PostedOperation operation = cluster.operation(rank, 0, 20, GetParam());
    if (rank == 2) operation.digest ^= 1;
    cluster.post(std::move(operation));
  }
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::mismatch);
  }
  EXPECT_TRUE(cluster.idle());
}

TEST(Engine, DifferentAlgorithmsAreADisagreement) {
  Cluster cluster({0, 1});
  cluster.post(cluster.operation(0, 0, 20, Algorithm::ring_pull));
  cluster.post(cluster.operation(1, 0, 20, Algorithm::scatter_dest));
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.completion(0, 0).record.status, CompletionStatus::mismatch);
  EXPECT_EQ(cluster.completion(1, 0).record.status, CompletionStatus::mismatch);
  EXPECT_TRUE(cluster.idle());
}

TEST_P(BothAlgorithms, AFaultFailsBothEndsAndNobodyElse) {
  Cluster cluster({0, 1, 2});
  cluster.faulty_source = WorldRank{1};
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    PostedOperation operation = cluster.operation(rank, 0, 20, GetParam());
    operation.own_block_done = true;
    cluster.post(std::move(operation));
  }
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(cluster.completion(rank, 0).record.status, CompletionStatus::memory_fault);
    EXPECT_EQ(cluster.marked(rank, 0, 1), false);
  }
  EXPECT_TRUE(cluster.marked(0, 0, 2));
  EXPECT_TRUE(cluster.idle());
}

TEST_P(BothAlgorithms, AnErrorWaitsForMovesInFlight) {
  Cluster cluster({0, 0, 1});
  cluster.hold_moves = true;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    PostedOperation operation = cluster.operation(rank, 0, 20, GetParam());
    if (rank == 2) operation.digest ^= 1;
    cluster.post(std::move(operation));
  }
  cluster.settle();
  EXPECT_FALSE(cluster.completed(0, 0));
  EXPECT_FALSE(cluster.completed(1, 0));
  cluster.hold_moves = false;
  cluster.settle();
  EXPECT_TRUE(cluster.all_completed(0));
  EXPECT_EQ(cluster.completion(0, 0).record.status, CompletionStatus::mismatch);
}

TEST_P(BothAlgorithms, ManyOperationsStayInOrderWithOneCredit) {
  EngineLimits limits;
  limits.announce_credits = 1;
  Cluster cluster({0, 0, 1, 1}, limits);
  for (std::uint32_t rank : {2U, 0U, 3U, 1U}) {
    for (std::uint64_t sequence = 0; sequence < 20; ++sequence) {
      cluster.post(cluster.operation(rank, sequence, 16, GetParam()));
    }
    cluster.settle();
  }
  for (std::uint64_t sequence = 0; sequence < 20; ++sequence) {
    ASSERT_TRUE(cluster.all_completed(sequence));
    for (std::uint32_t rank = 0; rank < 4; ++rank) EXPECT_TRUE(cluster.bytes_right(rank, sequence, 16));
  }
  EXPECT_TRUE(cluster.idle());
}

// A rank that is ahead holds the only credit while a rank that is behind has an earlier operation to announce.
TEST_P(BothAlgorithms, ARankAheadDoesNotHoldUpOneBehind) {
  EngineLimits limits;
  limits.announce_credits = 1;
  Cluster cluster({0, 0, 1}, limits);
  const auto between = [&](std::uint32_t rank, std::uint64_t sequence, std::vector<std::uint64_t> bytes) {
    PostedOperation operation = cluster.operation(rank, sequence, 8, GetParam());
    for (BlockLayout* layout : {&operation.send, &operation.receive}) {
      for (std::uint64_t peer = 0; peer < 3; ++peer) {
        layout->extents.push_back(PairExtent{static_cast<std::int64_t>(peer * 8), bytes[peer]});
      }
    }
    cluster.post(std::move(operation));
  };
  between(0, 0, {0, 0, 0});  // no part in operation 0
  between(0, 1, {0, 0, 8});  // takes the credit
  cluster.settle();
  between(1, 0, {0, 0, 8});
  between(2, 0, {0, 8, 0});
  cluster.settle();
  EXPECT_TRUE(cluster.all_completed(0));  // rank 2 posts operation 1 only after that
  between(1, 1, {0, 0, 0});
  between(2, 1, {8, 0, 0});
  cluster.settle();
  EXPECT_TRUE(cluster.all_completed(1));
  EXPECT_TRUE(cluster.idle());
}

TEST_P(BothAlgorithms, LongAnnouncementsAreSplit) {
  EngineLimits limits;
  limits.message_bytes = static_cast<std::uint32_t>(peer::announce_bytes() + 2 * peer::kExtentBytes + 5);
  Cluster cluster({0, 1, 1, 1, 1, 1}, limits);
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    PostedOperation operation = cluster.operation(rank, 0, 24, GetParam());
    for (BlockLayout* layout : {&operation.send, &operation.receive}) {
      for (std::int64_t peer = 0; peer < 6; ++peer) layout->extents.push_back(PairExtent{peer * 24, 24});
    }
    cluster.post(std::move(operation));
  }
  cluster.hold_messages = true;
  cluster.settle();
  EXPECT_EQ(std::count_if(cluster.letters.begin(), cluster.letters.end(),
                          [](const Cluster::Letter& letter) { return letter.from == SpId{0}; }),
            3);
  for (const Cluster::Letter& letter : cluster.letters) EXPECT_LE(letter.message.size(), limits.message_bytes);
  cluster.hold_messages = false;
  cluster.settle();
  ASSERT_TRUE(cluster.all_completed(0));
  for (std::uint32_t rank = 0; rank < 6; ++rank) EXPECT_TRUE(cluster.bytes_right(rank, 0, 24));
}

TEST_P(BothAlgorithms, ADroppedRankEndsItsOperationsAndItsPeersWait) {
  Cluster cluster({0, 0, 1});
  cluster.hold_moves = true;
  for (std::uint32_t rank = 0; rank < 3; ++rank) cluster.post(cluster.operation(rank, 0, 20, GetParam()));
  cluster.settle();
  cluster.engine(0).drop_rank(WorldRank{1});
  cluster.faulty_source = WorldRank{1};
  cluster.hold_moves = false;
  cluster.settle();
  EXPECT_EQ(cluster.completion(1, 0).count, 0U);
  EXPECT_TRUE(cluster.completed(0, 0));
  EXPECT_TRUE(cluster.completed(2, 0));
  EXPECT_EQ(cluster.broken(), std::nullopt);
  EXPECT_TRUE(cluster.idle());
}

TEST_P(BothAlgorithms, ARankThatLeavesWithoutPostingDoesNotHangItsPeers) {
  for (const bool leaves_first : {true, false}) {
    Cluster cluster({0, 1});
    if (leaves_first) cluster.engine(1).drop_rank(WorldRank{1});
    cluster.post(cluster.operation(0, 0, 8, GetParam()));
    cluster.settle();
    if (!leaves_first) {
      EXPECT_FALSE(cluster.completed(0, 0));
      cluster.engine(1).drop_rank(WorldRank{1});
      cluster.settle();
    }
    ASSERT_TRUE(cluster.completed(0, 0)) << leaves_first;
    EXPECT_EQ(cluster.completion(0, 0).record.status, CompletionStatus::peer_lost);
    EXPECT_EQ(cluster.broken(), std::nullopt);
  }
}

TEST_P(BothAlgorithms, ARankThatFailsOrLeavesIsMissedAlsoByThoseThatExchangeNothingOneWay) {
  for (const bool leaves : {true, false}) {
    for (const bool sends : {true, false}) {
      Cluster cluster({0, 1});
      for (std::uint32_t rank = 0; rank < 2; ++rank) cluster.post(cluster.operation(rank, 0, 8, GetParam()));
      cluster.settle();
      ASSERT_TRUE(cluster.all_completed(0));
      if (leaves) {
        cluster.engine(1).drop_rank(WorldRank{1});
      } else {
        PostedOperation bad = cluster.operation(1, 1, 8, GetParam());
        bad.receive.base.owner = WorldRank{0};
        cluster.post(std::move(bad));
      }
      cluster.settle();
      PostedOperation one_way = cluster.operation(0, 1, 8, GetParam());
      (sends ? one_way.receive : one_way.send).block_bytes = 0;
      one_way.own_block_done = true;
      cluster.post(std::move(one_way));
      cluster.settle();
      ASSERT_TRUE(cluster.completed(0, 1)) << leaves << sends;
      EXPECT_EQ(cluster.completion(0, 1).record.status,
                leaves ? CompletionStatus::peer_lost : CompletionStatus::rejected);
    }
  }
}

TEST(Engine, RejectsWhatItCannotAccept) {
  const auto status_of = [](auto change) {
    Cluster cluster({0, 0});
    PostedOperation operation = cluster.operation(0, 0, 8, Algorithm::ring_pull);
    change(operation);
    const SlotIndex slot = operation.slot;
    cluster.engine(0).post(std::move(operation));
    cluster.settle();
    EXPECT_TRUE(cluster.idle());
    const Cluster::Completion& completion = cluster.completion(0, slot.value());
    return completion.count == 1 ? std::optional(completion.record.status) : std::nullopt;
  };
  using P = PostedOperation;
  EXPECT_EQ(status_of([](P& p) { p.algorithm = static_cast<Algorithm>(99); }), CompletionStatus::rejected);
  EXPECT_EQ(status_of([](P& p) { p.id.sequence = 1; }), CompletionStatus::rejected);
  EXPECT_EQ(status_of([](P& p) { p.me = GroupRank{1}; }), CompletionStatus::rejected);
  EXPECT_EQ(status_of([](P& p) { p.me = GroupRank{2}; }), CompletionStatus::rejected);
  EXPECT_EQ(status_of([](P& p) { p.send.base.owner = WorldRank{1}; }), CompletionStatus::rejected);
  EXPECT_EQ(status_of([](P& p) { p.receive.extents.resize(3); }), CompletionStatus::rejected);
  EXPECT_EQ(status_of([](P& p) { p.marks.resize(1); }), CompletionStatus::rejected);
  EXPECT_EQ(status_of([](P& p) { p.members = nullptr; }), CompletionStatus::rejected);
  EXPECT_EQ(status_of([](P& p) {
              p.members = std::make_shared<const std::vector<WorldRank>>(std::vector{WorldRank{0}, WorldRank{0}});
            }),
            CompletionStatus::rejected);
  EXPECT_EQ(status_of([](P& p) {
              p.members = std::make_shared<const std::vector<WorldRank>>(std::vector{WorldRank{0}, WorldRank{7}});
            }),
            CompletionStatus::rejected);
}

TEST_P(BothAlgorithms, ARejectedRankDoesNotHangItsPeers) {
  Cluster cluster({0, 1});
  PostedOperation bad = cluster.operation(0, 0, 8, GetParam());
  bad.receive.base.owner = WorldRank{1};
  cluster.post(std::move(bad));
  cluster.post(cluster.operation(1, 0, 8, GetParam()));
  cluster.settle();
  EXPECT_EQ(cluster.completion(0, 0).record.status, CompletionStatus::rejected);
  ASSERT_TRUE(cluster.completed(1, 0));
  EXPECT_EQ(cluster.completion(1, 0).record.status, CompletionStatus::rejected);
  EXPECT_TRUE(cluster.idle());
}

TEST_P(BothAlgorithms, FreedGroupsLeaveNothingOpen) {
  Cluster cluster({0, 1});
  for (std::uint32_t rank = 0; rank < 2; ++rank) cluster.post(cluster.operation(rank, 0, 8, GetParam()));
  cluster.settle();
  for (std::uint32_t rank = 0; rank < 2; ++rank) cluster.engine(rank).forget_group(WorldRank{rank}, GroupId{1, 1});
  cluster.settle();
  EXPECT_TRUE(cluster.idle());
}

}  // namespace
}  // namespace outrigger::engine::testing
