#include "protocol/shared/segment.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace outrigger {
namespace {

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};

class Segment : public ::testing::Test {
 protected:
  Segment()
      : memory_(std::aligned_alloc(4096, SegmentView::segment_bytes())), view_(static_cast<std::byte*>(memory_.get())) {
    std::memset(memory_.get(), 0, SegmentView::segment_bytes());
    view_.initialize(WorldRank(5), 8);
  }
  std::unique_ptr<void, FreeDeleter> memory_;
  SegmentView view_;
};

TEST_F(Segment, IsValidForItsRankOnly) {
  EXPECT_TRUE(view_.valid_for(WorldRank(5)));
  EXPECT_FALSE(view_.valid_for(WorldRank(4)));
}

TEST_F(Segment, EveryConstantIsChecked) {
  const auto broken_by = [this](auto& field) {
    const auto before = field;
    field = before + 1;
    const bool valid = view_.valid_for(WorldRank(5));
    field = before;
    return !valid;
  };
  SegmentHeader& header = view_.header();
  EXPECT_TRUE(broken_by(header.magic));
  EXPECT_TRUE(broken_by(header.version));
  EXPECT_TRUE(broken_by(header.slot_count));
  EXPECT_TRUE(broken_by(header.ring_offset));
  EXPECT_TRUE(broken_by(header.slots_offset));
  EXPECT_TRUE(broken_by(header.arena_offset));
  EXPECT_TRUE(broken_by(header.arena_bytes));
  EXPECT_TRUE(broken_by(header.segment_bytes));
  EXPECT_TRUE(view_.valid_for(WorldRank(5)));
}

TEST_F(Segment, PartsLieBesideEachOtherInside) {
  EXPECT_GE(SegmentView::ring_offset(), sizeof(SegmentHeader));
  EXPECT_GE(SegmentView::slots_offset(), SegmentView::ring_offset() + kSlotCount * 4);
  EXPECT_GE(SegmentView::arena_offset(), SegmentView::slots_offset() + kSlotCount * sizeof(OperationSlot));
  EXPECT_EQ(SegmentView::segment_bytes(), SegmentView::arena_offset() + kArenaBytes);
  auto* first = reinterpret_cast<std::byte*>(&view_.slot(SlotIndex(0)));
  auto* last = reinterpret_cast<std::byte*>(&view_.slot(SlotIndex(kSlotCount - 1)));
  EXPECT_EQ(first, view_.base() + SegmentView::slots_offset());
  EXPECT_LE(last + sizeof(OperationSlot), view_.arena());
  EXPECT_EQ(&view_.ring_entry(kSlotCount), &view_.ring_entry(0));
}

// Fields that either side writes often are in separate cache lines.
TEST_F(Segment, SidesShareNoCacheLine) {
  const auto line = [this](const auto& field) {
    return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&field) - view_.base()) / 64;
  };
  const SegmentHeader& header = view_.header();
  EXPECT_NE(line(header.ring_tail), line(header.completions));
  EXPECT_NE(line(header.completions), line(header.fatal));
  EXPECT_NE(line(header.ring_tail), line(header.segment_bytes));
  const OperationSlot& slot = view_.slot(SlotIndex(1));
  EXPECT_NE(line(slot.state), line(slot.body));
}

}  // namespace
}  // namespace outrigger
