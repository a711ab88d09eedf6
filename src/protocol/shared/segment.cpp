#include "protocol/shared/segment.hpp"

#include "protocol/build_version.hpp"

namespace outrigger {

void SegmentView::initialize(WorldRank rank, std::uint32_t world_size) const {
  SegmentHeader& constants = header();
  constants.version = build_version();
  constants.world_rank = rank.value();
  constants.world_size = world_size;
  constants.slot_count = kSlotCount;
  constants.ring_offset = ring_offset();
  constants.slots_offset = slots_offset();
  constants.arena_offset = arena_offset();
  constants.arena_bytes = kArenaBytes;
  constants.segment_bytes = segment_bytes();
  constants.magic = kSegmentMagic;
}

bool SegmentView::valid_for(WorldRank rank) const {
  const SegmentHeader& constants = header();
  return constants.magic == kSegmentMagic && constants.version == build_version() &&
         constants.world_rank == rank.value() && constants.slot_count == kSlotCount &&
         constants.ring_offset == ring_offset() && constants.slots_offset == slots_offset() &&
         constants.arena_offset == arena_offset() && constants.arena_bytes == kArenaBytes &&
         constants.segment_bytes == segment_bytes();
}

}  // namespace outrigger
