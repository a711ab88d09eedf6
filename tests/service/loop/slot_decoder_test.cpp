#include "service/loop/slot_decoder.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "service/slot_fixture.hpp"

namespace outrigger {
namespace {

using testing::SlotFixture;

TEST(SlotDecoder, GoodSlotIsAccepted) {
  SlotFixture slot;
  const auto decoded = slot.decode(SlotFixture::good());
  ASSERT_TRUE(decoded) << decoded.error();
  const auto& operation = std::get<engine::PostedOperation>(decoded.value());
  EXPECT_EQ(operation.rank, SlotFixture::kMe);
  EXPECT_EQ(operation.members->size(), SlotFixture::kWorld);
  EXPECT_EQ(operation.send.block(GroupRank{3}).memory.address, SlotFixture::kRegionBase + 3000);
}

SlotRequestBody good_reduction() {
  SlotRequestBody body = SlotFixture::good();
  body.collective = static_cast<std::uint16_t>(Collective::iallreduce);
  body.algorithm = static_cast<std::uint16_t>(Algorithm::sliced_pull);
  body.send.stride_bytes = body.receive.stride_bytes = 0;
  body.reduce_operation = static_cast<std::uint16_t>(ReduceOperation::sum);
  body.element_type = static_cast<std::uint16_t>(ElementType::float64);
  return body;
}

TEST(SlotDecoder, AReductionNamesOperationAndType) {
  SlotFixture slot;
  const auto decoded = slot.decode(good_reduction());
  ASSERT_TRUE(decoded) << decoded.error();
  EXPECT_EQ(std::get<engine::PostedOperation>(decoded.value()).reduction,
            (Reduction{ReduceOperation::sum, ElementType::float64}));
}

// The field of the stride holds the begin of the part, which could lead out of the rank's memory.
TEST(SlotDecoder, APartOfAReductionSaysWhereItBegins) {
  SlotFixture slot;
  SlotRequestBody body = good_reduction();
  body.collective = static_cast<std::uint16_t>(Collective::ireduce_scatter);
  body.receive.stride_bytes = std::int64_t{1} << 40;
  const auto decoded = slot.decode(body);
  ASSERT_TRUE(decoded) << decoded.error();
  const auto& operation = std::get<engine::PostedOperation>(decoded.value());
  EXPECT_EQ(operation.part_offset_bytes, std::uint64_t{1} << 40);
  EXPECT_EQ(operation.receive.stride_bytes, 0);
  body.receive.block_bytes = std::uint64_t{1} << 40;
  EXPECT_FALSE(slot.decode(body)) << "outside the rank's memory";
}

TEST(SlotDecoder, WhatMpiDoesNotReduceIsRejected) {
  SlotFixture slot;
  const auto rejected = [&slot](std::uint16_t operation, std::uint16_t type) {
    SlotRequestBody body = good_reduction();
    body.reduce_operation = operation;
    body.element_type = type;
    return !slot.decode(body);
  };
  EXPECT_FALSE(rejected(1, 1));
  EXPECT_TRUE(rejected(0, 0));
  EXPECT_TRUE(rejected(3, 0));
  EXPECT_TRUE(rejected(0, 10));
  EXPECT_TRUE(rejected(13, 1));
  EXPECT_TRUE(rejected(3, 28));
  EXPECT_TRUE(rejected(8, 10)) << "bits of a double";
  EXPECT_TRUE(rejected(3 + 256, 10));
  EXPECT_TRUE(rejected(3, 10 + 256));
  SlotRequestBody other = SlotFixture::good();
  other.reduce_operation = 3;
  other.element_type = 10;
  EXPECT_FALSE(slot.decode(other)) << "an all-to-all";
}

TEST(SlotDecoder, ForgetGroupNeedsNothingElse) {
  SlotFixture slot;
  SlotRequestBody body;
  body.request = static_cast<std::uint16_t>(SlotRequest::forget_group);
  body.group_low = 9;
  const auto decoded = slot.decode(body);
  ASSERT_TRUE(decoded) << decoded.error();
  EXPECT_EQ(std::get<service::ForgetGroup>(decoded.value()).group, (GroupId{0, 9}));
}

TEST(SlotDecoder, LargerBlocksAreOfACollectiveThatThereIs) {
  SlotFixture slot;
  SlotRequestBody body;
  body.request = static_cast<std::uint16_t>(SlotRequest::larger_blocks);
  body.group_low = 9;
  EXPECT_FALSE(slot.decode(body));
  body.collective = static_cast<std::uint16_t>(Collective::ialltoallv);
  const auto decoded = slot.decode(body);
  ASSERT_TRUE(decoded) << decoded.error();
  EXPECT_EQ(std::get<service::LargerBlocks>(decoded.value()).collective, Collective::ialltoallv);
}

SlotRequestBody about_plan(SlotRequest request) {
  SlotRequestBody body;
  body.request = static_cast<std::uint16_t>(request);
  body.group_high = 1;
  body.group_low = 2;
  return body;
}

TEST(SlotDecoder, WhoJoinsAPlanIsAMember) {
  SlotFixture slot;
  SlotRequestBody body = about_plan(SlotRequest::join_plan);
  EXPECT_FALSE(slot.decode(body)) << "no members";
  const SlotRequestBody good = SlotFixture::good();
  body.group_size = good.group_size;
  body.group_rank = good.group_rank;
  body.members = good.members;
  const auto decoded = slot.decode(body);
  ASSERT_TRUE(decoded) << decoded.error();
  EXPECT_EQ(std::get<service::JoinPlan>(decoded.value()).members->size(), SlotFixture::kWorld);
  body.group_rank = 0;
  EXPECT_FALSE(slot.decode(body)) << "another's place";
  body.group_rank = good.group_size;
  EXPECT_FALSE(slot.decode(body));
}

TEST(SlotDecoder, TrialsAndEarlierChoicesAreOfWaysThatThereAre) {
  SlotFixture slot;
  const steer::TrialRequest good{steer::CallKey::of(Collective::ibcast, false, 4096), steer::Method::native(),
                                 Algorithm::hierarchical, 3};
  for (const SlotRequest request : {SlotRequest::ask_trial, SlotRequest::recall}) {
    SlotRequestBody body = about_plan(request);
    body.algorithm = static_cast<std::uint16_t>(good.if_offloaded);
    body.root = good.encode();
    ASSERT_TRUE(slot.decode(body));
    body.algorithm = static_cast<std::uint16_t>(Algorithm::ring_pull);
    EXPECT_FALSE(slot.decode(body)) << "no algorithm of a broadcast";
    body.algorithm = static_cast<std::uint16_t>(good.if_offloaded);
    body.root = steer::TrialRequest{{steer::CallKey::kCount}, {}, good.if_offloaded, 0}.encode();
    EXPECT_FALSE(slot.decode(body)) << "no such call";
    body.root = steer::TrialRequest{good.key, steer::Method::by(Algorithm::node_pull), good.if_offloaded, 0}.encode();
    EXPECT_FALSE(slot.decode(body)) << "no such way";
    body.root = steer::TrialRequest{good.key, {}, good.if_offloaded, 11}.encode();
    EXPECT_FALSE(slot.decode(body)) << "too large a window";
  }
  SlotRequestBody body = about_plan(SlotRequest::recall);
  body.algorithm = static_cast<std::uint16_t>(good.if_offloaded);
  body.root = steer::TrialRequest{good.key, steer::Method::by(Algorithm::flat), good.if_offloaded, 0}.encode();
  const auto decoded = slot.decode(body);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<service::Recall>(decoded.value()).decision,
            (steer::CachedDecision{good.key, steer::Method::by(Algorithm::flat), false}));
}

TEST(SlotDecoder, WhatIsMeasuredOrGivenUpIsATrial) {
  SlotFixture slot;
  for (const SlotRequest request : {SlotRequest::measured, SlotRequest::give_up}) {
    SlotRequestBody body = about_plan(request);
    EXPECT_FALSE(slot.decode(body));
    body.sequence = 0x10000;
    EXPECT_FALSE(slot.decode(body));
    body.sequence = 7;
    const auto decoded = slot.decode(body);
    ASSERT_TRUE(decoded);
    if (request == SlotRequest::measured) {
      EXPECT_EQ(std::get<service::TrialMeasured>(decoded.value()).trial, 7);
    } else {
      EXPECT_EQ(std::get<service::GiveUpTrial>(decoded.value()).trial, 7);
    }
  }
}

struct Spoiled {
  const char* name;
  std::function<void(SlotFixture&, SlotRequestBody&)> spoil;
};

class SlotDecoderRejects : public ::testing::TestWithParam<Spoiled> {};

TEST_P(SlotDecoderRejects, TheSpoiledField) {
  SlotFixture slot;
  SlotRequestBody body = SlotFixture::good();
  ASSERT_TRUE(slot.decode(body)) << "good before it is spoiled";
  GetParam().spoil(slot, body);
  EXPECT_FALSE(slot.decode(body));
}

constexpr std::int64_t kMostNegative = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMostPositive = std::numeric_limits<std::int64_t>::max();

std::vector<Spoiled> spoiled_fields() {
  using F = SlotFixture;
  using Body = SlotRequestBody;
  const auto with_extents = [](F& slot, Body& body) {
    for (std::uint32_t i = 0; i < F::kWorld; ++i)
      slot.extents()[i] = PairExtent{static_cast<std::int64_t>(i) * 100, 100};
    body.send.extents = F::arena(4096);
  };
  return {
      {"request", [](F&, Body& b) { b.request = 77; }},
      {"collective", [](F&, Body& b) { b.collective = 0; }},
      {"algorithm", [](F&, Body& b) { b.algorithm = 99; }},
      {"flags", [](F&, Body& b) { b.flags = 0x80; }},
      {"no_members", [](F&, Body& b) { b.group_size = 0; }},
      {"too_many_members", [](F&, Body& b) { b.group_size = F::kWorld + 1; }},
      {"huge_group", [](F&, Body& b) { b.group_size = 0xFFFFFFFF; }},
      {"group_rank", [](F&, Body& b) { b.group_rank = F::kWorld; }},
      {"other_rank", [](F&, Body& b) { b.group_rank = 1; }},
      {"root", [](F&, Body& b) { b.root = F::kWorld; }},
      {"members_private", [](F&, Body& b) { b.members.region = 0; }},
      {"members_outside", [](F&, Body& b) { b.members = F::arena(kArenaBytes - 8); }},
      {"members_unaligned", [](F&, Body& b) { b.members = F::arena(2); }},
      {"members_changed", [](F& slot, Body&) { std::swap(slot.members()[0], slot.members()[1]); }},
      {"member_outside_world",
       [](F& slot, Body& b) {
         b.group_low = 3;
         slot.members()[0] = F::kWorld;
       }},
      {"member_twice",
       [](F& slot, Body& b) {
         b.group_low = 3;
         slot.members()[0] = 1;
       }},
      {"marks_private", [](F&, Body& b) { b.marks.region = 0; }},
      {"marks_outside", [](F&, Body& b) { b.marks = F::arena(kArenaBytes - 3); }},
      {"marks_wrap", [](F&, Body& b) { b.marks.address = ~std::uint64_t{0}; }},
      {"send_outside", [](F&, Body& b) { b.send.base = F::region(F::kRegionBytes - 3999); }},
      {"send_before", [](F&, Body& b) { b.send.base = F::region(0), b.send.stride_bytes = -1; }},
      {"send_block_huge", [](F&, Body& b) { b.send.block_bytes = ~std::uint64_t{0}; }},
      {"stride_overflow", [](F&, Body& b) { b.send.stride_bytes = kMostPositive; }},
      {"stride_underflow", [](F&, Body& b) { b.receive.stride_bytes = kMostNegative; }},
      {"receive_unknown_region", [](F&, Body& b) { b.receive.base.region = 50; }},
      {"private_wraps",
       [](F&, Body& b) {
         b.receive.base = LocalRef{0, 0, ~std::uint64_t{0} - 100};
       }},
      {"extents_private_array", [=](F& s, Body& b) { with_extents(s, b), b.send.extents.region = 9; }},
      {"extents_array_outside",
       [=](F& s, Body& b) { with_extents(s, b), b.send.extents = F::arena(kArenaBytes - 16); }},
      {"extent_outside", [=](F& s, Body& b) { with_extents(s, b), s.extents()[2].offset_bytes = F::kRegionBytes; }},
      {"extent_negative", [=](F& s, Body& b) { with_extents(s, b), s.extents()[2].offset_bytes = -1; }},
      {"extent_most_negative", [=](F& s, Body& b) { with_extents(s, b), s.extents()[1].offset_bytes = kMostNegative; }},
      {"extent_huge", [=](F& s, Body& b) { with_extents(s, b), s.extents()[0].bytes = ~std::uint64_t{0}; }},
  };
}

INSTANTIATE_TEST_SUITE_P(Fields, SlotDecoderRejects, ::testing::ValuesIn(spoiled_fields()),
                         [](const auto& spoiled) { return std::string(spoiled.param.name); });

// Sends to ranks 0 and 3, receives from rank 1.
SlotRequestBody good_exchange(SlotFixture& slot) {
  SlotRequestBody body = SlotFixture::good();
  body.collective = static_cast<std::uint16_t>(Collective::ineighbor_alltoallw);
  slot.neighbors()[0] = NeighborExtent{{100, 10}, 0, 0};
  slot.neighbors()[1] = NeighborExtent{{200, 0}, 3, 0};
  slot.neighbors()[2] = NeighborExtent{{300, 30}, 1, 0};
  body.send.extents = SlotFixture::arena(4096, 2);
  body.receive.extents = SlotFixture::arena(4096 + 2 * sizeof(NeighborExtent), 1);
  return body;
}

TEST(SlotDecoder, NeighborsAreNamed) {
  SlotFixture slot;
  const auto decoded = slot.decode(good_exchange(slot));
  ASSERT_TRUE(decoded) << decoded.error();
  const auto& operation = std::get<engine::PostedOperation>(decoded.value());
  EXPECT_EQ(operation.send.neighbors, (std::vector<GroupRank>{GroupRank{0}, GroupRank{3}}));
  EXPECT_EQ(operation.receive.neighbors, std::vector<GroupRank>{GroupRank{1}});
  EXPECT_EQ(operation.send.block(GroupRank{0}).memory.address, SlotFixture::kRegionBase + 100);
  EXPECT_EQ(operation.send.bytes(GroupRank{0}), 10U);
  EXPECT_EQ(operation.send.bytes(GroupRank{1}), 0U);
  EXPECT_EQ(operation.send.bytes(GroupRank{3}), 0U);
  EXPECT_EQ(operation.receive.bytes(GroupRank{1}), 30U);
}

TEST(SlotDecoder, NobodyIsANeighbor) {
  SlotFixture slot;
  SlotRequestBody body = good_exchange(slot);
  body.send.extents = body.receive.extents = LocalRef{};
  const auto decoded = slot.decode(body);
  ASSERT_TRUE(decoded) << decoded.error();
  const auto& operation = std::get<engine::PostedOperation>(decoded.value());
  EXPECT_TRUE(operation.send.neighbors.empty() && operation.receive.neighbors.empty());
  for (std::uint32_t rank = 0; rank < SlotFixture::kWorld; ++rank) EXPECT_EQ(operation.send.bytes(GroupRank{rank}), 0U);
}

TEST(SlotDecoder, WrongNeighborsAreRejected) {
  SlotFixture slot;
  const auto rejected = [&slot](const auto& spoil) {
    SlotRequestBody body = good_exchange(slot);
    spoil(body, slot.neighbors());
    return !slot.decode(body);
  };
  EXPECT_FALSE(rejected([](SlotRequestBody&, NeighborExtent*) {}));
  EXPECT_TRUE(rejected([](SlotRequestBody&, NeighborExtent* all) { all[1].rank = SlotFixture::kWorld; }));
  EXPECT_TRUE(rejected([](SlotRequestBody&, NeighborExtent* all) { all[1].rank = 0; })) << "twice";
  EXPECT_TRUE(rejected([](SlotRequestBody&, NeighborExtent* all) { std::swap(all[0], all[1]); }));
  EXPECT_TRUE(rejected([](SlotRequestBody&, NeighborExtent* all) { all[0].block.offset_bytes = -1; }));
  EXPECT_TRUE(rejected([](SlotRequestBody& body, NeighborExtent*) { body.send.extents.count = 5; }));
  EXPECT_TRUE(rejected([](SlotRequestBody& body, NeighborExtent*) { body.send.extents.region = 9; }));
  EXPECT_TRUE(rejected([](SlotRequestBody& body, NeighborExtent*) {
    body.send.extents = SlotFixture::arena(kArenaBytes - sizeof(NeighborExtent), 2);
  }));
}

TEST(SlotDecoder, EmptyBlocksMayBeAnywhere) {
  SlotFixture slot;
  SlotRequestBody body = SlotFixture::good();
  body.send.base = LocalRef{0, 0, 0};
  body.send.block_bytes = 0;
  EXPECT_TRUE(slot.decode(body));
}

TEST(SlotDecoder, RandomGarbageIsRejectedOrHarmless) {
  SlotFixture slot;
  std::mt19937_64 random(11);
  std::uint32_t accepted = 0;
  for (int round = 0; round < 200'000; ++round) {
    SlotRequestBody body = SlotFixture::good();
    std::array<std::byte, sizeof(body)> raw{};
    std::memcpy(raw.data(), &body, sizeof(body));
    for (std::uint64_t spoils = random() % 4; spoils > 0; --spoils) {
      const std::uint64_t word = random() >> (random() % 64);
      std::memcpy(raw.data() + random() % (raw.size() - 8), &word, 1 + random() % 8);
    }
    std::memcpy(&body, raw.data(), sizeof(body));
    const auto decoded = slot.decode(body);
    if (!decoded) continue;
    ++accepted;
    testing::check_decoded(decoded.value(), slot.memory());
  }
  EXPECT_GT(accepted, 0U);
}

TEST(GroupCache, GroupsGoWithTheirLastUser) {
  service::GroupCache cache(3);
  const std::array<std::uint32_t, 3> members{0, 1, 2};
  const GroupId group{1, 1};
  const auto first = cache.intern(WorldRank{0}, group, members, GroupRank{0});
  const auto second = cache.intern(WorldRank{1}, group, members, GroupRank{1});
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_EQ(first.value(), second.value()) << "shared";
  cache.forget(WorldRank{0}, group);
  cache.forget(WorldRank{2}, group);
  EXPECT_EQ(cache.size(), 1U);
  cache.forget_rank(WorldRank{1});
  EXPECT_EQ(cache.size(), 0U);
}

}  // namespace
}  // namespace outrigger
