#include "client/memory/argument_memory.hpp"

#include <algorithm>
#include <utility>

namespace outrigger::client {
namespace {

constexpr std::chrono::milliseconds kGrowthTimeout{5000};

}  // namespace

ArgumentMemory::ArgumentMemory(Regions& regions, SegmentView segment) : regions_(regions) {
  constexpr std::uint64_t kOfSlots = kSlotCount * std::uint64_t{kSlotMarksBytes};
  chunks_.add_chunk(kArenaRegion, reinterpret_cast<std::uintptr_t>(segment.arena()) + kOfSlots, kArenaBytes - kOfSlots);
}

std::optional<MemoryRange> ArgumentMemory::grow_for(std::uint64_t bytes) {
  start_growth(bytes);
  return growth_failed_ ? std::nullopt : chunks_.allocate(bytes);  // the answer may have come already
}

void ArgumentMemory::start_growth(std::uint64_t bytes) {
  if (growth_ || growth_failed_) return;
  // Proportional to the memory in use: the number of regions is limited, that of operations is not.
  const std::uint64_t wanted = std::max(bytes, chunks_.bytes_in_use() / 4);
  std::optional<Region> region = regions_.create(RangeAllocator::chunk_bytes_for(wanted));
  growth_failed_ = !region;
  if (!region) return;
  if (!regions_.registers()) {
    growth_deadline_ = std::chrono::steady_clock::now() + kGrowthTimeout;
    growth_.expect(std::move(*region));
    return look_at_growth();
  }
  growth_failed_ = !regions_.register_now(*region);
  if (growth_failed_) return regions_.discard_unannounced(std::move(*region));
  take_in(std::move(*region));
}

void ArgumentMemory::look_at_growth() {
  const RegionAnswer answer = growth_.look(regions_.control());
  const bool in_time = std::chrono::steady_clock::now() < growth_deadline_ && !regions_.control().is_lost();
  if (answer == RegionAnswer::pending && in_time) return;
  Region region = growth_.take();
  if (answer == RegionAnswer::accepted) return take_in(std::move(region));
  growth_failed_ = true;
  if (growth_.announced()) regions_.control().drop_region(region.id, false);
  regions_.discard_unannounced(std::move(region));
}

void ArgumentMemory::take_in(Region region) {
  chunks_.add_chunk(region.id, region.address(), region.bytes);
  regions_.insert(std::move(region));
}

}  // namespace outrigger::client
