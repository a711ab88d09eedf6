// A replacement reads the segment of a rank whose service process has died.
#include "service/loop/found_posts.hpp"

#include <gtest/gtest.h>

#include <new>
#include <vector>

#include "service/slot_fixture.hpp"

namespace outrigger::service {
namespace {

using testing::SlotFixture;

constexpr GroupId kFoundGroup{1, 2};

class FoundPostsTest : public ::testing::Test {
 protected:
  [[nodiscard]] SegmentView segment() { return fixture_.memory().segment(); }

  // As a rank does.
  void post(std::uint32_t slot, std::uint64_t sequence, SlotState state, SlotRequest request = SlotRequest::operation) {
    OperationSlot& shared = segment().slot(SlotIndex{slot});
    shared.body = SlotFixture::good();
    shared.body.request = static_cast<std::uint16_t>(request);
    shared.body.sequence = sequence;
    std::atomic<std::uint32_t>& tail = segment().header().ring_tail;
    shared.position = tail.load();
    shared.state.store(static_cast<std::uint32_t>(state));
    tail.fetch_add(1);
  }
  void enter(std::uint32_t index, std::uint64_t done_below, GroupState state = GroupState::in_use) {
    GroupEntry& entry = segment().group(index);
    entry.group_high = kFoundGroup.high;
    entry.group_low = kFoundGroup.low + index;
    entry.group_size = SlotFixture::kWorld;
    entry.group_rank = SlotFixture::kMe.value();
    entry.members = SlotFixture::arena(0);
    entry.plan = index + 1;
    entry.done_below.store(done_below);
    entry.state.store(static_cast<std::uint32_t>(state));
    segment().header().groups_used.store(index + 1);
  }
  // Appends a record to the arena.
  void append(std::uint64_t sequence, SlotState state) {
    const std::uint64_t place = 65536 + 512 * records_.size();
    auto* record = new (segment().arena() + place) OverflowRecord{};
    record->operation.body = SlotFixture::good();
    record->operation.body.sequence = sequence;
    record->operation.state.store(static_cast<std::uint32_t>(state));
    record->number = first_number_ + static_cast<std::uint32_t>(records_.size());
    if (!records_.empty()) records_.back()->next = SlotFixture::arena(place);
    records_.push_back(record);
    segment().header().overflow_tail.store(record->number + 1);
    if (records_.size() > 1) return;
    segment().header().overflow_first_address.store(SlotFixture::arena(place).address);
    segment().header().overflow_first_region.store(kArenaRegion.value());
  }
  [[nodiscard]] std::vector<std::uint64_t> open_sequences() {
    const Result<FoundPosts> found = find_posts(fixture_.memory());
    std::vector<std::uint64_t> sequences;
    if (!found) return sequences;
    for (const FoundPost& post : found.value().operations) sequences.push_back(post.body.sequence);
    return sequences;
  }

  SlotFixture fixture_;
  std::uint32_t first_number_ = 0;
  std::vector<OverflowRecord*> records_;
};

TEST_F(FoundPostsTest, UnfinishedPostsAreFoundInOrder) {
  post(9, 3, SlotState::done);
  post(7, 4, SlotState::posted);
  post(2, 5, SlotState::filled);
  post(4, 6, SlotState::posted);
  segment().header().ring_head.store(3);  // the last one had not been taken
  const Result<FoundPosts> found = find_posts(fixture_.memory());
  ASSERT_TRUE(found) << found.error();
  ASSERT_EQ(found.value().operations.size(), 3U);
  EXPECT_EQ(open_sequences(), (std::vector<std::uint64_t>{4, 5, 6}));
  EXPECT_FALSE(found.value().operations[0].told);
  EXPECT_TRUE(found.value().operations[1].told);
  EXPECT_EQ(found.value().operations[1].slot, SlotIndex{2});
  EXPECT_EQ(found.value().ring_tail, 4U);
  EXPECT_EQ(found.value().next_sequence.at(kFoundGroup), 7U);
}

// The slot is filled before the ring's tail moves: a reader that sees the old tail gets the slot from the ring.
TEST_F(FoundPostsTest, PostsBehindTheTailAreLeftToTheRing) {
  post(0, 0, SlotState::posted);
  post(1, 1, SlotState::posted);
  segment().header().ring_tail.store(1);
  EXPECT_EQ(open_sequences(), (std::vector<std::uint64_t>{0}));
}

TEST_F(FoundPostsTest, RingCounterMayWrap) {
  segment().header().ring_tail.store(~0U - 1);
  for (std::uint32_t i = 0; i < 4; ++i) post(i, i, SlotState::posted);
  EXPECT_EQ(open_sequences(), (std::vector<std::uint64_t>{0, 1, 2, 3}));
}

TEST_F(FoundPostsTest, RequestsAreSeparateAndInOrder) {
  post(5, 0, SlotState::posted, SlotRequest::join_plan);
  post(3, 0, SlotState::posted, SlotRequest::forget_group);
  const Result<FoundPosts> found = find_posts(fixture_.memory());
  ASSERT_TRUE(found);
  EXPECT_TRUE(found.value().operations.empty());
  ASSERT_EQ(found.value().requests.size(), 2U);
  EXPECT_EQ(found.value().requests[0].slot, SlotIndex{5});
  EXPECT_TRUE(found.value().next_sequence.empty());
}

TEST_F(FoundPostsTest, GroupsHaveTheRanksProgress) {
  enter(0, 12);
  enter(1, 3, GroupState::freed);
  enter(2, 0);
  segment().group(2).state.store(static_cast<std::uint32_t>(GroupState::none));
  post(0, 13, SlotState::done);
  const Result<FoundPosts> found = find_posts(fixture_.memory());
  ASSERT_TRUE(found);
  ASSERT_EQ(found.value().groups.size(), 2U);
  EXPECT_FALSE(found.value().groups[0].freed);
  EXPECT_TRUE(found.value().groups[1].freed);
  EXPECT_EQ(found.value().groups[1].plan.value, 2U);
  EXPECT_EQ(found.value().next_sequence.at(kFoundGroup), 14U) << "done, and not given back yet";
  EXPECT_EQ(found.value().next_sequence.at(GroupId{1, 3}), 3U);
}

TEST_F(FoundPostsTest, RecordsAreFollowedUpToTheLastTakenOne) {
  first_number_ = 6;  // earlier ones have been given back
  append(6, SlotState::free);
  append(7, SlotState::posted);
  append(8, SlotState::done);
  append(9, SlotState::posted);
  append(10, SlotState::posted);
  segment().header().overflow_taken.store(10);
  const Result<FoundPosts> found = find_posts(fixture_.memory());
  ASSERT_TRUE(found) << found.error();
  EXPECT_EQ(open_sequences(), (std::vector<std::uint64_t>{7, 9}));
  EXPECT_EQ(found.value().next_sequence.at(kFoundGroup), 10U);
  EXPECT_EQ(found.value().overflow_taken, 10U);
  ASSERT_TRUE(found.value().last_record);
  EXPECT_EQ(found.value().last_record->address, SlotFixture::arena(65536 + 3 * 512).address);
}

TEST_F(FoundPostsTest, MalformedSegmentsAreErrors) {
  append(0, SlotState::posted);
  append(1, SlotState::posted);
  segment().header().overflow_taken.store(2);
  records_[1]->number = 7;
  EXPECT_FALSE(find_posts(fixture_.memory()));
  records_[1]->number = 1;
  records_[0]->next = LocalRef{kArenaRegion.value(), 0, 42};
  EXPECT_FALSE(find_posts(fixture_.memory()));
  segment().header().overflow_taken.store(0);
  EXPECT_TRUE(find_posts(fixture_.memory()));
  segment().header().groups_unlisted.store(1);
  EXPECT_FALSE(find_posts(fixture_.memory()));
}

TEST_F(FoundPostsTest, TheNewestPlanOfAnyRankCounts) {
  SlotFixture other;
  enter(0, 0);
  GroupEntry& entry = other.memory().segment().group(0);
  entry.group_high = kFoundGroup.high;
  entry.group_low = kFoundGroup.low;
  entry.plan = 5;
  entry.state.store(static_cast<std::uint32_t>(GroupState::in_use));
  other.memory().segment().header().groups_used.store(1);
  const std::vector<SegmentView> segments{segment(), other.memory().segment()};
  EXPECT_EQ(newest_plans(segments).at(kFoundGroup), steer::PlanChange{});
  steer::DispatchPlan native;
  native.suspended.busy = steer::kEveryCollective;
  steer::plan_entry(segment(), PlanNumber{1}).change(steer::PlanChange{0, {}, native});
  EXPECT_EQ(newest_plans(segments).at(kFoundGroup).after, native) << "from the first call on";
  steer::plan_entry(other.memory().segment(), PlanNumber{5}).change(steer::PlanChange{8, native, {}});
  EXPECT_EQ(newest_plans(segments).at(kFoundGroup), (steer::PlanChange{8, native, {}}));
}

}  // namespace
}  // namespace outrigger::service
