#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <limits>

#include "fake_node.hpp"

namespace outrigger::client::test {
namespace {

constexpr std::uint32_t kSize = 8;

class Post : public ::testing::Test {
 protected:
  Post() : client_(node_.attach()) { group_ = client_->define_group(GroupId{7, 9}, world(kSize), GroupRank(3)); }

  OperationRequest request(std::uint64_t sequence) {
    OperationRequest made;
    made.group = group_;
    made.sequence = sequence;
    made.send = BufferLayout{send_.data(), 64, 64, {}};
    made.receive = BufferLayout{receive_.data(), 64, 64, {}};
    return made;
  }
  // On memory that outlives this process.
  OperationRequest kept_request() {
    OperationRequest made = request(0);
    made.kept = true;
    if (mapped_ == nullptr) mapped_ = client_->heap().allocate_for_program(kSize * 64);
    made.send.base = made.receive.base = mapped_;
    return made;
  }

  std::array<std::byte, kSize * 64> send_{};
  std::array<std::byte, kSize * 64> receive_{};
  void* mapped_ = nullptr;
  FakeNode node_;
  AttachedEndpoint client_;
  std::shared_ptr<const Group> group_;
};

TEST_F(Post, SlotHoldsTheRequest) {
  OperationRequest wanted = request(42);
  wanted.collective = Collective::ialltoall;
  wanted.algorithm = Algorithm::scatter_dest;
  wanted.configuration = 77;
  wanted.own_block_done = true;
  const auto operation = client_->post(wanted);
  ASSERT_NE(operation, nullptr);
  const auto slot = node_.take_post();
  ASSERT_TRUE(slot);
  const SlotRequestBody body = node_.body(*slot);
  EXPECT_EQ(body.request, static_cast<std::uint16_t>(SlotRequest::operation));
  EXPECT_EQ(body.collective, static_cast<std::uint16_t>(Collective::ialltoall));
  EXPECT_EQ(body.algorithm, static_cast<std::uint16_t>(Algorithm::scatter_dest));
  EXPECT_EQ(body.flags, kSlotOwnBlockDone);
  EXPECT_EQ(body.group_high, 7U);
  EXPECT_EQ(body.group_low, 9U);
  EXPECT_EQ(body.sequence, 42U);
  EXPECT_EQ(body.digest, operation_digest(Collective::ialltoall, Algorithm::scatter_dest, 0, kSize, 77));
  EXPECT_EQ(body.group_size, kSize);
  EXPECT_EQ(body.group_rank, 3U);
  EXPECT_EQ(body.send.base.region, kPrivateRegion.value());
  EXPECT_EQ(body.send.base.address, reinterpret_cast<std::uintptr_t>(send_.data()));
  EXPECT_EQ(body.send.stride_bytes, 64);
  EXPECT_EQ(body.send.block_bytes, 64U);
  EXPECT_EQ(body.send.extents.region, 0U);
  const auto* members = reinterpret_cast<const std::uint32_t*>(node_.at(body.members, kSize * 4));
  ASSERT_NE(members, nullptr);
  for (std::uint32_t i = 0; i < kSize; ++i) EXPECT_EQ(members[i], i);
  const std::byte* marks = node_.at(body.marks, kSize);
  ASSERT_NE(marks, nullptr);
  for (std::uint32_t i = 0; i < kSize; ++i) EXPECT_EQ(marks[i], std::byte{0});

  EXPECT_FALSE(client_->poll(*operation));
  node_.complete(*slot, CompletionStatus::truncated, 5);
  EXPECT_TRUE(client_->poll(*operation));
  EXPECT_TRUE(client_->poll(*operation));
  EXPECT_EQ(operation->result.status, CompletionStatus::truncated);
  EXPECT_EQ(operation->result.late_announcements, 5U);
  EXPECT_EQ(operation->result.bytes_by_reach[1], 2U);
}

TEST_F(Post, MarksAreZeroAlsoInReusedMemory) {
  for (int round = 0; round < 3; ++round) {
    const auto operation = client_->post(request(static_cast<std::uint64_t>(round)));
    const auto slot = node_.take_post();
    ASSERT_TRUE(slot);
    std::byte* marks = node_.at(node_.body(*slot).marks, kSize);
    for (std::uint32_t i = 0; i < kSize; ++i) EXPECT_EQ(marks[i], std::byte{0}) << round;
    std::memset(marks, 1, kSize);
    node_.complete(*slot);
    EXPECT_TRUE(client_->poll(*operation));
  }
}

TEST_F(Post, MarksOfASmallGroupAreBesideItsSlot) {
  const std::uint64_t before = client_->usage().argument_bytes;
  const auto first = client_->post(request(0));
  const auto second = client_->post(request(1));
  EXPECT_EQ(client_->usage().argument_bytes, before);
  const SlotIndex slot = node_.take_post().value();
  const SlotIndex other = node_.take_post().value();
  const std::uint64_t marks = node_.body(slot).marks.address;
  const std::uint64_t others = node_.body(other).marks.address;
  EXPECT_GE(std::max(marks, others) - std::min(marks, others), kSize);
  node_.complete(slot);
  node_.complete(other);
  EXPECT_TRUE(client_->poll(*first));
  EXPECT_TRUE(client_->poll(*second));
}

TEST_F(Post, MarksOfALargeGroupAreArguments) {
  constexpr std::uint32_t kMany = kSlotMarksBytes + 1;
  const auto group = client_->define_group(GroupId{7, 10}, world(kMany), GroupRank(3));
  const std::uint64_t before = client_->usage().argument_bytes;
  OperationRequest wanted = request(0);
  wanted.group = group;
  wanted.send.block_bytes = wanted.receive.block_bytes = 0;
  const auto operation = client_->post(wanted);
  ASSERT_NE(operation, nullptr);
  EXPECT_GE(client_->usage().argument_bytes, before + kMany);
  const auto slot = node_.take_post();
  EXPECT_NE(node_.at(node_.body(*slot).marks, kMany), nullptr);
  node_.complete(*slot);
  EXPECT_TRUE(client_->poll(*operation));
}

TEST_F(Post, AFoundBufferIsOnlyFoundAgainAsItWas) {
  void* mapped = client_->heap().allocate_for_program(kSize * 64);
  ASSERT_NE(mapped, nullptr);
  SideMemory side;
  for (int i = 0; i < 2; ++i) {
    client_->find({mapped, 64, 64, {}}, kSize, side);
    EXPECT_TRUE(side.is_mapped());
    EXPECT_EQ(side.begin, reinterpret_cast<std::uintptr_t>(mapped));
    EXPECT_EQ(side.bytes, kSize * 64U);
    client_->find({send_.data(), 64, 64, {}}, kSize, side);
    EXPECT_TRUE(side.is_private());
    client_->find({mapped, 64, 64, {}}, kSize, side);
    EXPECT_TRUE(side.is_mapped());
    client_->find({mapped, 64, 64, {}}, 2, side);
    EXPECT_EQ(side.bytes, 2 * 64U);
    client_->find({mapped, 64, 0, {}}, kSize, side);
    EXPECT_EQ(side.reached, SideMemory::Reached::without_bytes);
  }
}

TEST_F(Post, UnknownStatusIsNotTrusted) {
  const auto operation = client_->post(request(0));
  node_.complete(node_.take_post().value(), static_cast<CompletionStatus>(999));
  ASSERT_TRUE(client_->poll(*operation));
  EXPECT_EQ(operation->result.status, CompletionStatus::rejected);
}

TEST_F(Post, ExtentsAreCopied) {
  std::vector<PairExtent> send(kSize);
  std::vector<PairExtent> receive(kSize);
  for (std::uint32_t i = 0; i < kSize; ++i) {
    send[i] = PairExtent{static_cast<std::int64_t>(i) * 8, i};
    receive[i] = PairExtent{static_cast<std::int64_t>(kSize - i) * 8, 8};
  }
  OperationRequest wanted = request(0);
  wanted.collective = Collective::ialltoallv;
  wanted.send = BufferLayout{send_.data(), 0, 0, send};
  wanted.receive = BufferLayout{receive_.data(), 0, 0, receive};
  const auto operation = client_->post(wanted);
  const auto sent = send;
  const auto received = receive;
  std::fill(send.begin(), send.end(), PairExtent{-1, 99});
  std::fill(receive.begin(), receive.end(), PairExtent{-1, 99});
  const auto slot = node_.take_post();
  ASSERT_TRUE(slot);
  const SlotRequestBody body = node_.body(*slot);
  const auto* copied_send =
      reinterpret_cast<const PairExtent*>(node_.at(body.send.extents, kSize * sizeof(PairExtent)));
  const auto* copied_receive =
      reinterpret_cast<const PairExtent*>(node_.at(body.receive.extents, kSize * sizeof(PairExtent)));
  ASSERT_NE(copied_send, nullptr);
  ASSERT_NE(copied_receive, nullptr);
  ASSERT_NE(node_.at(body.marks, kSize), nullptr);
  for (std::uint32_t i = 0; i < kSize; ++i) {
    EXPECT_EQ(copied_send[i], sent[i]);
    EXPECT_EQ(copied_receive[i], received[i]);
  }
  node_.complete(*slot);
  EXPECT_TRUE(client_->poll(*operation));
}

TEST_F(Post, NeighborsAreCopiedWithTheirExtents) {
  std::vector<std::uint32_t> to{0, kSize - 1};
  const std::vector<std::uint32_t> from{1};
  std::vector<PairExtent> sent{{8, 16}, {32, 0}};
  const std::vector<PairExtent> received{{0, 0}};
  OperationRequest wanted = request(0);
  wanted.collective = Collective::ineighbor_alltoallw;
  wanted.send = BufferLayout{send_.data(), 0, 0, sent};
  wanted.receive = BufferLayout{receive_.data(), 0, 0, received};
  wanted.send_neighbors = to;
  wanted.receive_neighbors = from;
  const auto operation = client_->post(wanted);
  std::fill(sent.begin(), sent.end(), PairExtent{-1, 99});
  std::fill(to.begin(), to.end(), 7);
  const auto slot = node_.take_post();
  ASSERT_TRUE(slot);
  const SlotRequestBody body = node_.body(*slot);
  ASSERT_EQ(body.send.extents.count, 2U);
  ASSERT_EQ(body.receive.extents.count, 1U) << "also without bytes";
  const auto* copied = reinterpret_cast<const NeighborExtent*>(node_.at(body.send.extents, 2 * sizeof(NeighborExtent)));
  ASSERT_NE(copied, nullptr);
  EXPECT_EQ(copied[0], (NeighborExtent{{8, 16}, 0, 0}));
  EXPECT_EQ(copied[1], (NeighborExtent{{32, 0}, kSize - 1, 0}));
  node_.complete(*slot);
  EXPECT_TRUE(client_->poll(*operation));
}

TEST_F(Post, NeighborsAreInOrderAndHaveAnExtentEach) {
  const std::vector<PairExtent> two{{0, 8}, {8, 8}};
  const auto posted = [&](Collective collective, const std::vector<std::uint32_t>& neighbors) {
    OperationRequest wanted = request(0);
    wanted.collective = collective;
    wanted.send = BufferLayout{send_.data(), 0, 0, two};
    wanted.send_neighbors = neighbors;
    wanted.receive = BufferLayout{receive_.data(), 0, 0, {}};
    const auto operation = client_->post(wanted);
    if (operation == nullptr) return false;
    node_.complete(*node_.take_post());
    return client_->poll(*operation);
  };
  EXPECT_TRUE(posted(Collective::ineighbor_alltoallv, {0, 1}));
  EXPECT_FALSE(posted(Collective::ineighbor_alltoallv, {1, 0}));
  EXPECT_FALSE(posted(Collective::ineighbor_alltoallv, {1, 1}));
  EXPECT_FALSE(posted(Collective::ineighbor_alltoallv, {0, kSize}));
  EXPECT_FALSE(posted(Collective::ineighbor_alltoallv, {0}));
  EXPECT_FALSE(posted(Collective::ialltoallv, {0, 1}));
}

TEST_F(Post, SideWithoutBytesIsPrivateAndNull) {
  const std::vector<PairExtent> nothing(kSize, PairExtent{123, 0});
  OperationRequest wanted = request(0);
  wanted.send = BufferLayout{send_.data(), 64, 0, {}};
  wanted.receive = BufferLayout{receive_.data(), 0, 0, nothing};
  const auto operation = client_->post(wanted);
  const auto slot = node_.take_post();
  ASSERT_TRUE(slot);
  const SlotRequestBody body = node_.body(*slot);
  for (const SlotLayout& side : {body.send, body.receive}) {
    EXPECT_EQ(side.base.region, kPrivateRegion.value());
    EXPECT_EQ(side.base.address, 0U);
    EXPECT_EQ(side.block_bytes, 0U);
    EXPECT_EQ(side.extents.region, 0U);
  }
  node_.complete(*slot);
  EXPECT_TRUE(client_->poll(*operation));
}

TEST_F(Post, RegionOnlyWhenItHoldsEveryBlock) {
  constexpr std::uint64_t kBytes = 1 << 20;  // staging of this size has a region of its own
  constexpr std::int64_t kStride = kBytes / kSize;
  auto* memory = static_cast<std::byte*>(client_->staging().allocate(kBytes));
  ASSERT_NE(memory, nullptr);
  const RegionId region = client_->region_of(memory, kBytes);
  const auto region_of_send = [&](const BufferLayout& layout) {
    OperationRequest wanted = request(0);
    wanted.send = layout;
    const auto operation = client_->post(wanted);
    const auto slot = node_.take_post();
    const std::uint32_t found = node_.body(*slot).send.base.region;
    node_.complete(*slot);
    EXPECT_TRUE(client_->poll(*operation));
    return RegionId(found);
  };
  EXPECT_EQ(region_of_send({memory, kStride, kStride, {}}), region);
  EXPECT_EQ(region_of_send({memory, kStride + 1, kStride, {}}), kPrivateRegion);
  EXPECT_EQ(region_of_send({memory + 1, kStride, kStride, {}}), kPrivateRegion);
  EXPECT_EQ(region_of_send({memory + kBytes - kStride, -kStride, kStride, {}}), region);
  EXPECT_EQ(region_of_send({memory + kBytes - kStride - 1, -kStride, kStride, {}}), kPrivateRegion);
  std::vector<PairExtent> extents(kSize, PairExtent{-8, 8});
  EXPECT_EQ(region_of_send({memory + 8, 0, 0, extents}), region);
  EXPECT_EQ(region_of_send({memory + 7, 0, 0, extents}), kPrivateRegion);
  extents[2] = PairExtent{-4096, 0};  // no bytes: may point anywhere
  EXPECT_EQ(region_of_send({memory + 8, 0, 0, extents}), region);
  client_->staging().release(memory);
}

TEST_F(Post, ImpossibleRequestsAreRejectedAtOnce) {
  OperationRequest wanted = request(0);
  wanted.group = nullptr;
  EXPECT_EQ(client_->post(wanted), nullptr);
  const std::vector<PairExtent> too_few(kSize - 1);
  wanted = request(0);
  wanted.send.extents = too_few;
  EXPECT_EQ(client_->post(wanted), nullptr);
  wanted = request(0);
  wanted.send.stride_bytes = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(client_->post(wanted), nullptr);
  FakeNode other_node;
  const auto other = other_node.attach();
  EXPECT_EQ(other->post(request(0)), nullptr);
  EXPECT_EQ(client_->define_group(GroupId{1, 1}, {}, GroupRank(0)), nullptr);
  EXPECT_EQ(client_->define_group(GroupId{1, 1}, world(2), GroupRank(2)), nullptr);
}

TEST_F(Post, WaitingOperationsFollowAsSlotsBecomeFree) {
  constexpr std::uint64_t kOperations = 3 * kSlotCount;
  std::vector<PendingOperationPtr> operations;
  for (std::uint64_t i = 0; i < kOperations; ++i) operations.push_back(client_->post(request(i)));
  EXPECT_EQ(client_->usage().slots, kSlotCount);
  EXPECT_EQ(client_->usage().without_slot, kOperations - kSlotCount);
  for (std::uint64_t i = 0; i < kOperations; ++i) {
    const auto slot = node_.take_post();
    ASSERT_TRUE(slot) << i;
    ASSERT_EQ(node_.body(*slot).sequence, i);
    node_.complete(*slot);
    ASSERT_TRUE(client_->poll(*operations[i])) << i;
  }
  EXPECT_EQ(client_->usage().slots, 0U);
  EXPECT_EQ(client_->usage().without_slot, 0U);
}

TEST_F(Post, NoCallIsNeededForOperationsWithoutASlotToBeServed) {
  constexpr std::uint64_t kOperations = 100000;
  std::vector<PendingOperationPtr> operations;
  for (std::uint64_t i = 0; i < kOperations; ++i) operations.push_back(client_->post(request(i)));
  for (std::uint64_t i = 0; i < kOperations; ++i) {
    const auto slot = node_.take_post(std::chrono::milliseconds(0));
    ASSERT_TRUE(slot) << i;
    ASSERT_EQ(node_.body(*slot).sequence, i);
    node_.complete(*slot);
  }
  EXPECT_FALSE(node_.take_post(std::chrono::milliseconds(0)));
  for (auto& operation : operations) ASSERT_TRUE(client_->poll(*operation));
  EXPECT_EQ(client_->usage().without_slot, 0U);
  EXPECT_LE(client_->usage().argument_bytes, 64U + 512U);  // the group's members, and the last record
}

TEST_F(Post, SlotsAreUsedAgainOnceAllRecordsAreTaken) {
  for (std::uint64_t round = 0, sequence = 0; round < 3; ++round) {
    std::vector<PendingOperationPtr> operations;
    std::vector<SlotIndex> taken;
    for (std::uint32_t i = 0; i < kSlotCount + 10; ++i) operations.push_back(client_->post(request(sequence++)));
    for (std::uint32_t i = 0; i < kSlotCount; ++i) {
      taken.push_back(node_.take_post().value());
      ASSERT_LT(taken.back().value(), kSlotCount);
      node_.complete(taken.back());
      ASSERT_TRUE(client_->poll(*operations[i]));
    }
    operations.push_back(client_->post(request(sequence++)));  // after the others, although slots are free
    for (std::uint32_t i = 0; i < 11; ++i) {
      taken.push_back(node_.take_post().value());
      ASSERT_GE(taken.back().value(), kSlotCount);
    }
    operations.push_back(client_->post(request(sequence++)));
    taken.push_back(node_.take_post().value());
    EXPECT_LT(taken.back().value(), kSlotCount);
    for (std::size_t i = taken.size(); i > kSlotCount; --i) node_.complete(taken[i - 1]);  // the last first
    for (auto& operation : operations) EXPECT_TRUE(client_->poll(*operation));
    EXPECT_EQ(client_->usage().without_slot, 0U);
    EXPECT_LE(client_->usage().argument_bytes, 64U + 512U);
  }
}

// From the segment alone, as a replacement service process must.
TEST_F(Post, RecordsThatAreNotDoneAreFoundFromTheHeader) {
  std::vector<PendingOperationPtr> operations;
  std::vector<SlotIndex> taken;
  for (std::uint32_t i = 0; i < kSlotCount + 20; ++i) operations.push_back(client_->post(request(i)));
  for (std::uint32_t i = 0; i < kSlotCount + 10; ++i) taken.push_back(node_.take_post().value());
  for (const std::uint32_t done : {0U, 1U, 2U, 5U}) {
    node_.complete(taken[kSlotCount + done]);
    ASSERT_TRUE(client_->poll(*operations[kSlotCount + done]));
  }
  const SegmentHeader& header = node_.header();
  LocalRef ref{header.overflow_first_region.load(), 0, header.overflow_first_address.load()};
  std::vector<std::uint64_t> found;
  while (true) {
    const auto* record = reinterpret_cast<const OverflowRecord*>(node_.at(ref, sizeof(OverflowRecord)));
    ASSERT_NE(record, nullptr);
    if (record->operation.state.load() == static_cast<std::uint32_t>(SlotState::posted)) {
      found.push_back(record->operation.body.sequence - kSlotCount);
    }
    if (record->number + 1 == header.overflow_tail.load()) break;
    ref = record->next;
  }
  std::vector<std::uint64_t> expected{3, 4};
  for (std::uint64_t i = 6; i < 20; ++i) expected.push_back(i);
  EXPECT_EQ(found, expected);
}

TEST_F(Post, WaitingForTheLastAloneIsEnough) {
  constexpr std::uint64_t kOperations = 3 * kSlotCount + 10;
  node_.start_serving();
  std::vector<PendingOperationPtr> operations;
  for (std::uint64_t i = 0; i < kOperations; ++i) operations.push_back(client_->post(request(i)));
  ASSERT_TRUE(finish(*client_, *operations.back()));
  for (auto& operation : operations) EXPECT_TRUE(client_->poll(*operation));
  EXPECT_EQ(client_->usage().slots, 0U);
}

TEST_F(Post, ArgumentMemoryGrowsWithoutBlocking) {
  // 400 operations with 2 * 1000 extents: 33 KB each, 13 MB together, the arena has 4.
  constexpr std::uint32_t kMany = 1000;
  auto large = client_->define_group(GroupId{1, 2}, world(kMany), GroupRank(3));
  ASSERT_NE(large, nullptr);
  std::vector<PairExtent> extents(kMany, PairExtent{0, 8});
  std::vector<PendingOperationPtr> operations;
  for (std::uint64_t i = 0; i < 400; ++i) {
    extents[999].bytes = i % 64 + 1;
    OperationRequest wanted = request(i);
    wanted.group = large;
    wanted.send.extents = extents;
    wanted.receive.extents = extents;
    operations.push_back(client_->post(wanted));
    ASSERT_NE(operations.back(), nullptr);
  }
  std::vector<SlotIndex> slots;
  for (std::uint64_t i = 0; i < 400; ++i) {
    ASSERT_TRUE(eventually([&] {  // without a further call of the program
      const auto slot = node_.take_post(std::chrono::milliseconds(0));
      if (slot) slots.push_back(*slot);
      return slot.has_value();
    })) << i;
    const SlotRequestBody body = node_.body(slots.back());
    EXPECT_EQ(body.sequence, i);
    const auto* copied = reinterpret_cast<const PairExtent*>(node_.at(body.send.extents, kMany * sizeof(PairExtent)));
    ASSERT_NE(copied, nullptr) << i;
    EXPECT_EQ(copied[999].bytes, i % 64 + 1);
  }
  EXPECT_GT(node_.regions(), 1U);
  for (const SlotIndex slot : slots) node_.complete(slot);
  for (auto& operation : operations) EXPECT_TRUE(client_->poll(*operation));
  operations.clear();
  large.reset();
  const auto forget = node_.take_post();
  ASSERT_TRUE(forget);
  node_.complete(*forget);
  EXPECT_EQ(client_->usage().slots, 0U);
  EXPECT_EQ(client_->usage().argument_bytes, 64U);  // the other group's members
}

TEST_F(Post, WithoutGrowthOperationsWaitForArgumentMemory) {
  node_.set_accept_regions(false);
  constexpr std::uint32_t kMany = 4000;
  const auto large = client_->define_group(GroupId{1, 2}, world(kMany), GroupRank(3));
  const std::vector<PairExtent> extents(kMany, PairExtent{0, 8});
  std::vector<PendingOperationPtr> operations;
  for (std::uint64_t i = 0; i < 100; ++i) {
    OperationRequest wanted = request(i);
    wanted.group = large;
    wanted.send.extents = extents;
    wanted.receive.extents = extents;
    operations.push_back(client_->post(wanted));
    ASSERT_NE(operations.back(), nullptr);
  }
  node_.start_serving();
  for (auto& operation : operations) {
    ASSERT_TRUE(finish(*client_, *operation));
    EXPECT_EQ(operation->result.status, CompletionStatus::ok);
  }
}

TEST_F(Post, ArgumentsThatNeverFitAreNoHang) {
  node_.set_accept_regions(false);
  constexpr std::uint32_t kMany = 200000;  // 6.4 MB of extents, more than the arena
  const auto large = client_->define_group(GroupId{1, 2}, world(kMany), GroupRank(3));
  ASSERT_NE(large, nullptr);
  const std::vector<PairExtent> extents(kMany, PairExtent{0, 8});
  OperationRequest wanted = request(0);
  wanted.group = large;
  wanted.send.extents = extents;
  wanted.receive.extents = extents;
  const auto operation = client_->post(wanted);
  if (operation) {
    ASSERT_TRUE(finish(*client_, *operation));
    EXPECT_EQ(operation->result.status, CompletionStatus::rejected);
  }
}

TEST_F(Post, DoorbellOnlyWhenTheServiceSleeps) {
  node_.start_serving(true);
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto operation = client_->post(request(i));
    ASSERT_TRUE(finish(*client_, *operation)) << i;
  }
  EXPECT_GT(node_.doorbells(), 0U);
  EXPECT_LE(node_.doorbells(), 201U);
}

TEST_F(Post, WaitSleepsUntilACompletion) {
  constexpr std::chrono::seconds kLong{60};
  const auto first = client_->post(request(0));
  const auto second = client_->post(request(1));
  const SlotIndex slot = node_.take_post().value();
  EXPECT_FALSE(client_->poll(*first));
  const auto begin = std::chrono::steady_clock::now();
  client_->wait_for_completion(std::chrono::milliseconds(50));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(49));

  // Done between the first poll and the sleep, with another poll in between: no sleep.
  EXPECT_FALSE(client_->poll(*first));
  node_.complete(slot);
  EXPECT_FALSE(client_->poll(*second));
  const auto again = std::chrono::steady_clock::now();
  client_->wait_for_completion(kLong);
  EXPECT_LT(std::chrono::steady_clock::now() - again, kLong / 2);
  EXPECT_TRUE(client_->poll(*first));

  // Done while asleep: woken.
  const SlotIndex other = node_.take_post().value();
  std::thread later([&] {
    static_cast<void>(eventually([&] { return node_.header().rank_sleeping.load() != 0; }));
    node_.complete(other);
  });
  EXPECT_FALSE(client_->poll(*second));
  client_->wait_for_completion(kLong);
  EXPECT_LT(std::chrono::steady_clock::now() - again, kLong);
  EXPECT_TRUE(client_->poll(*second));
  later.join();
  EXPECT_EQ(node_.header().rank_sleeping.load(), 0U);
}

TEST_F(Post, GroupsAreForgottenOnlyWhenUsed) {
  auto unused = client_->define_group(GroupId{1, 1}, world(4), GroupRank(0));
  unused.reset();
  EXPECT_FALSE(node_.take_post(std::chrono::milliseconds(10)));
  auto operation = client_->post(request(0));
  node_.complete(node_.take_post().value());
  EXPECT_TRUE(client_->poll(*operation));
  group_.reset();
  EXPECT_FALSE(node_.take_post(std::chrono::milliseconds(10)));  // the operation holds it
  operation.reset();
  const auto slot = node_.take_post();
  ASSERT_TRUE(slot);
  EXPECT_EQ(node_.body(*slot).request, static_cast<std::uint16_t>(SlotRequest::forget_group));
  EXPECT_EQ(node_.body(*slot).group_low, 9U);
  node_.complete(*slot);
  const ClientUsage usage = client_->usage();
  EXPECT_EQ(usage.slots, 0U);
  EXPECT_EQ(usage.argument_bytes, 0U);
}

TEST_F(Post, ManyForgottenGroupsNeedNoMoreThanTheSlots) {
  node_.start_serving();
  for (std::uint64_t i = 0; i < 5000; ++i) {
    auto group = client_->define_group(GroupId{2, i}, world(4), GroupRank(0));
    OperationRequest wanted = request(0);
    wanted.group = group;
    ASSERT_TRUE(finish(*client_, *client_->post(wanted)));
  }
  EXPECT_TRUE(eventually([&] { return client_->usage().slots == 0; }));
  EXPECT_EQ(node_.served(), 10000U);
}

TEST_F(Post, GroupsAndOperationsMayOutliveTheClient) {
  auto done = client_->post(request(0));
  node_.complete(node_.take_post().value());
  EXPECT_TRUE(client_->poll(*done));
  auto open = client_->post(request(1));
  auto abandoned = client_->post(request(2));
  abandoned.reset();
  client_.reset();
  open.reset();
  done.reset();
  group_.reset();
}

TEST_F(Post, AbandonedOperationKeepsItsMemoryUntilItIsDone) {
  client_->post(request(0)).reset();
  EXPECT_EQ(client_->usage().slots, 1U);
  node_.complete(node_.take_post().value());
  EXPECT_EQ(client_->usage().slots, 0U);
}

// The service process reports that all receive blocks are placed, while others still read.
void tell_filled(FakeNode& node, SlotIndex slot, std::uint64_t bytes) {
  node.place(slot).result.bytes_by_reach[0] = bytes;
  node.place(slot).state.store(static_cast<std::uint32_t>(SlotState::filled));
}

TEST_F(Post, AKeptOperationEndsWhenItIsFilledAndIsKeptUntilOthersHaveRead) {
  OperationRequest wanted = kept_request();
  wanted.staging[0] = client_->staging().allocate(64);
  ASSERT_NE(wanted.staging[0], nullptr);
  PendingOperationPtr operation = client_->post(wanted);
  const SlotIndex slot = node_.take_post().value();
  EXPECT_EQ(node_.body(slot).flags, kSlotKept);
  EXPECT_FALSE(client_->poll(*operation));
  tell_filled(node_, slot, 640);
  ASSERT_TRUE(client_->poll(*operation));
  EXPECT_EQ(operation->result.status, CompletionStatus::ok);
  EXPECT_EQ(operation->result.bytes_by_reach[0], 640U);
  operation.reset();
  EXPECT_NE(client_->usage().kept, 0U);
  EXPECT_EQ(client_->usage().slots, 1U);
  EXPECT_NE(client_->usage().staging_bytes, 0U) << "others may read it";
  node_.complete(slot);
  EXPECT_EQ(client_->usage().kept, 0U);
  EXPECT_EQ(client_->usage().slots, 0U);
  EXPECT_EQ(client_->usage().staging_bytes, 0U);
}

// The memory ends with this process, which may end after the operation.
TEST_F(Post, AnOperationOnPrivateMemoryIsNotKept) {
  std::array<std::byte, kSize> bytes{};
  for (const bool sends : {true, false}) {
    OperationRequest wanted = kept_request();
    wanted.sequence = sends ? 0 : 1;
    (sends ? wanted.send : wanted.receive) = BufferLayout{bytes.data(), 1, 1, {}};
    const PendingOperationPtr operation = client_->post(wanted);
    const SlotIndex slot = node_.take_post().value();
    EXPECT_EQ(node_.body(slot).flags, 0U);
    node_.complete(slot);
    EXPECT_TRUE(client_->poll(*operation));
  }
}

// A communicator is freed while others still read: the operation then is the last to hold the group, and forgetting a
// group takes the lock.
TEST_F(Post, AKeptOperationMayBeTheLastThatHoldsItsGroup) {
  const auto other = client_->define_group(GroupId{7, 10}, world(kSize), GroupRank(3));
  const auto forgotten = static_cast<std::uint16_t>(SlotRequest::forget_group);
  for (const bool by_post : {true, false}) {
    OperationRequest wanted = kept_request();
    PendingOperationPtr operation = client_->post(wanted);
    const SlotIndex slot = node_.take_post().value();
    tell_filled(node_, slot, 0);
    ASSERT_TRUE(client_->poll(*operation));
    operation.reset();
    wanted.group.reset();
    group_.reset();
    EXPECT_FALSE(node_.take_post(std::chrono::milliseconds(10))) << "others may read";
    node_.complete(slot);
    OperationRequest next = request(0);
    next.group = other;
    if (by_post) {
      operation = client_->post(next);
      node_.complete(node_.take_post().value());
      ASSERT_TRUE(client_->poll(*operation));
    } else {
      EXPECT_EQ(client_->usage().kept, 0U);
    }
    const SlotIndex told = node_.take_post().value();
    EXPECT_EQ(node_.body(told).request, forgotten);
    node_.complete(told);
    group_ = client_->define_group(GroupId{7, 11}, world(kSize), GroupRank(3));
  }
}

TEST_F(Post, KeptOperationsAreBounded) {
  OperationRequest wanted = kept_request();
  std::vector<SlotIndex> slots;
  for (;; ++wanted.sequence) {
    PendingOperationPtr operation = client_->post(wanted);
    slots.push_back(node_.take_post().value());
    ASSERT_LT(slots.size(), 1000U);
    if (node_.body(slots.back()).flags == 0) break;
    tell_filled(node_, slots.back(), 0);
    ASSERT_TRUE(client_->poll(*operation));
  }
  EXPECT_NE(client_->usage().kept, 0U);
  for (const SlotIndex slot : slots) node_.complete(slot);
  EXPECT_EQ(client_->usage().kept, 0U);
  EXPECT_EQ(client_->usage().slots, 0U);
}

TEST_F(Post, StagingThatIsHandedOverComesBackWithTheOperation) {
  OperationRequest wanted = request(0);
  wanted.staging[1] = client_->staging().allocate(64);
  PendingOperationPtr operation = client_->post(wanted);
  node_.complete(node_.take_post().value());
  ASSERT_TRUE(client_->poll(*operation));
  EXPECT_NE(client_->usage().staging_bytes, 0U) << "its owner may still look at it";
  operation.reset();
  EXPECT_EQ(client_->usage().staging_bytes, 0U);
}

TEST_F(Post, HundredThousandOperationsLeaveNothing) {
  node_.start_serving();
  const ClientUsage before = client_->usage();
  std::deque<PendingOperationPtr> window;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    window.push_back(client_->post(request(i)));
    ASSERT_NE(window.back(), nullptr);
    if (window.size() < 16) continue;
    while (!client_->poll(*window.front())) std::this_thread::yield();
    window.pop_front();
  }
  for (auto& operation : window) ASSERT_TRUE(finish(*client_, *operation));
  window.clear();
  const ClientUsage after = client_->usage();
  EXPECT_EQ(after.slots, 0U);
  EXPECT_EQ(after.without_slot, 0U);
  EXPECT_EQ(after.argument_bytes, before.argument_bytes);
  EXPECT_EQ(after.regions, 0U);
}

bool finds_others_posted(FakeNodeOptions options, std::uint64_t awaited, std::uint64_t posted) {
  FakeNode node(std::move(options));
  const auto client = node.attach();
  OperationRequest wanted;
  wanted.group = client->define_group(GroupId{7, 9}, world(kSize), GroupRank(3));
  wanted.sequence = posted;
  node.header().awaited_post = post_tag({GroupId{7, 9}, awaited});
  const auto operation = client->post(wanted);
  node.complete(node.take_post().value());
  EXPECT_TRUE(finish(*client, *operation));
  return operation->others_have_posted;
}

TEST(PostAsTheLast, IsKnownOfTheAwaitedOperationOnly) {
  FakeNodeOptions options;
  options.core_share = copy::CoreShare::own;
  EXPECT_TRUE(finds_others_posted(options, 0, 0));
  EXPECT_TRUE(finds_others_posted(options, 42, 42));
  EXPECT_FALSE(finds_others_posted(options, 42, 43));
}

TEST(PostAsTheLast, ServiceProcessMayNeedTheCore) {
  FakeNodeOptions options;
  options.core_share = copy::CoreShare::shared;
  EXPECT_FALSE(finds_others_posted(options, 0, 0));
}

TEST(PostWithoutCma, PrivateMemoryIsRejected) {
  FakeNodeOptions options;
  options.reach = kReachMapped;
  FakeNode node(options);
  const auto client = node.attach();
  const auto group = client->define_group(GroupId{1, 1}, world(kSize), GroupRank(3));
  std::array<std::byte, kSize> bytes{};
  OperationRequest wanted;
  wanted.group = group;
  wanted.send = BufferLayout{bytes.data(), 1, 1, {}};
  EXPECT_EQ(client->post(wanted), nullptr);
  auto* staging = client->staging().allocate(kSize);
  wanted.send.base = staging;
  wanted.receive = BufferLayout{staging, 1, 1, {}};
  const auto operation = client->post(wanted);
  ASSERT_NE(operation, nullptr);
  node.complete(node.take_post().value());
  EXPECT_TRUE(client->poll(*operation));
  client->staging().release(staging);
}

}  // namespace
}  // namespace outrigger::client::test
