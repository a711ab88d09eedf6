// Peer messages: encoded ones are decoded, damaged ones are rejected, and claims are checked.
#include <gtest/gtest.h>

#include "cluster.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace outrigger::peer {
namespace {

Message some_announce(bool with_extents) {
  Announce announce;
  announce.side = Side::receive;
  announce.again = true;
  announce.rank = WorldRank{1};
  announce.group_rank = GroupRank{1};
  announce.collective = Collective::ialltoallv;
  announce.algorithm = Algorithm::scatter_dest;
  announce.root = 3;
  announce.digest = 0x1122334455667788ULL;
  announce.region = RegionId{4};
  announce.base = 0x7fff00001000ULL;
  announce.stride_bytes = -64;
  announce.block_bytes = 64;
  announce.members = 5;
  announce.first = 1;
  announce.count = 2;
  if (with_extents) announce.extents = {PairExtent{-8, 16}, PairExtent{100, kSettled}};
  Message message;
  message.header = Header{Epoch{2}, Epoch{3}, OperationId{GroupId{5, 6}, 7}};
  message.body = announce;
  return message;
}

std::vector<Message> all_kinds() {
  std::vector<Message> messages{some_announce(false), some_announce(true)};
  Message message = messages.front();
  message.body = Delivered{GroupRank{1}, GroupRank{2}, Epoch{1}, CompletionStatus::truncated, Reach::relay, 10, 9};
  messages.push_back(message);
  message.body = Release{GroupRank{1}, GroupRank{2}, CompletionStatus::memory_fault};
  messages.push_back(message);
  message.body = Finished{WorldRank{9}, CompletionStatus::ok};
  messages.push_back(message);
  message.body = Refusal{GroupRank{1}, GroupRank{2}};
  messages.push_back(message);
  message.body = ReplicaRequest{GroupRank{1}, kWholeBlock, 77};
  messages.push_back(message);
  message.body = ReplicaAnswer{GroupRank{1}, 3, Where::here, SpId{1}, GroupRank{2}, RegionId{4}, 0x7fff00001000ULL, 64};
  messages.push_back(message);
  message.body = ReplicaDone{GroupRank{1}, 3};
  messages.push_back(message);
  message.body = Quiesce{true};
  messages.push_back(message);
  message.body = Overdue{3};
  messages.push_back(message);
  return messages;
}

std::vector<std::byte> encoded(const Message& message) {
  std::vector<std::byte> bytes;
  encode(message, bytes);
  return bytes;
}

TEST(PeerMessages, WhatIsWrittenIsRead) {
  for (const Message& message : all_kinds()) {
    const std::vector<std::byte> bytes = encoded(message);
    EXPECT_FALSE(is_for_coordinator(bytes));
    const std::optional<Message> read = decode(bytes);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->body.index(), message.body.index());
    EXPECT_EQ(read->header.operation, message.header.operation);
    EXPECT_EQ(encoded(*read), bytes);
  }
  EXPECT_EQ(encoded(some_announce(false)).size(), announce_bytes());
  EXPECT_EQ(encoded(some_announce(true)).size(), announce_bytes() + 2 * kExtentBytes);
  const std::optional<Message> read = decode(encoded(some_announce(true)));
  const Announce& announce = std::get<Announce>(read->body);
  EXPECT_EQ(announce.extents[0].offset_bytes, -8);
  EXPECT_EQ(announce.stride_bytes, -64);
  EXPECT_TRUE(announce.again);
}

TEST(PeerMessages, EveryOtherLengthIsRefused) {
  for (const Message& message : all_kinds()) {
    std::vector<std::byte> bytes = encoded(message);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(decode(std::span(bytes).first(length)).has_value()) << length;
    }
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(bytes).has_value());
  }
}

TEST(PeerMessages, ABentByteIsRefusedOrReadConsistently) {
  for (const Message& message : all_kinds()) {
    const std::vector<std::byte> good = encoded(message);
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (const unsigned value : {0U, 1U, 0x7FU, 0x80U, 0xFFU}) {
        std::vector<std::byte> bent = good;
        bent[at] = static_cast<std::byte>(value);
        const std::optional<Message> read = decode(bent);
        if (read.has_value()) {
          EXPECT_EQ(encoded(*read), bent);
        }
      }
    }
  }
}

// Each false claim that a peer could make.
TEST(PeerMessages, TheEngineChecksClaims) {
  engine::testing::Cluster cluster({0, 1, 2, 0});
  cluster.post(cluster.operation(0, 0, 8, Algorithm::ring_pull));
  cluster.engine(0).run();
  const GroupId group{1, 1};
  const auto refused = [&](Body body, std::uint32_t from = 1) {
    Message message;
    message.header = Header{Epoch{1}, Epoch{1}, OperationId{group, 0}};
    message.body = std::move(body);
    return !cluster.engine(0).receive(SpId{from}, encoded(message));
  };
  Announce announce;
  announce.rank = WorldRank{1};
  announce.group_rank = GroupRank{1};
  announce.members = announce.count = 2;
  const auto with = [&](auto change) {
    Announce changed = announce;
    change(changed);
    return changed;
  };
  EXPECT_FALSE(refused(announce));
  EXPECT_TRUE(refused(announce, 2));                                             // another service process's rank
  EXPECT_TRUE(refused(announce, 0));                                             // from itself
  EXPECT_TRUE(refused(with([](Announce& a) { a.rank = WorldRank{100}; })));      // no such rank
  EXPECT_TRUE(refused(with([](Announce& a) { a.group_rank = GroupRank{2}; })));  // another rank's place
  EXPECT_TRUE(refused(with([](Announce& a) { a.group_rank = GroupRank{4}; })));  // outside the group
  EXPECT_TRUE(refused(with([](Announce& a) { a.members = 3; })));                // not the number of local ranks
  EXPECT_TRUE(refused(with([](Announce& a) { a.count = 3; })));                  // beyond them
  EXPECT_FALSE(refused(Release{GroupRank{0}, GroupRank{1}, CompletionStatus::ok}));
  // another service process's destination
  EXPECT_FALSE(refused(Release{kEachSource, GroupRank{1}, CompletionStatus::ok}));
  EXPECT_TRUE(refused(Release{kEachSource, GroupRank{2}, CompletionStatus::ok}));
  EXPECT_TRUE(refused(Release{GroupRank{0}, GroupRank{2}, CompletionStatus::ok}));
  EXPECT_TRUE(refused(Release{GroupRank{2}, GroupRank{1}, CompletionStatus::ok}));  // not a local source
  EXPECT_TRUE(refused(Release{GroupRank{9}, GroupRank{1}, CompletionStatus::ok}));
  EXPECT_TRUE(refused(Delivered{GroupRank{2}, GroupRank{0}, Epoch{1}, CompletionStatus::ok, Reach::mapped, 8, 8}));
  EXPECT_TRUE(refused(Finished{WorldRank{2}, CompletionStatus::ok}));
  EXPECT_TRUE(refused(Refusal{GroupRank{2}, GroupRank{0}}));
  EXPECT_TRUE(refused(ReplicaRequest{GroupRank{9}, kWholeBlock, 0}));  // outside the group
  EXPECT_TRUE(refused(ReplicaDone{GroupRank{9}, kWholeBlock}));
  ReplicaAnswer answer;
  answer.where = Where::here;
  answer.holder = GroupRank{2};
  EXPECT_TRUE(refused(answer));  // another service process's rank
  answer.holder = GroupRank{9};
  EXPECT_TRUE(refused(answer));
  EXPECT_EQ(cluster.broken(), std::nullopt);
}

}  // namespace
}  // namespace outrigger::peer
