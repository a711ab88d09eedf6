// Memory beside the slots, which service processes read: blocks' extents, members of groups, delivered marks, overflow
// records. It begins with the segment's arena and grows by regions; a post that needs more says so and goes on, and the
// memory is there once the service processes have answered.
//
// Under the lock, but for allocate_and_wait().
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "client/memory/range_allocator.hpp"
#include "client/memory/regions.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

class ArgumentMemory {
 public:
  ArgumentMemory(Regions& regions, SegmentView segment);

  [[nodiscard]] std::optional<MemoryRange> allocate(std::uint64_t bytes) { return chunks_.allocate(bytes); }
  // When there is none: begins to grow. A range at once where that has not taken any time.
  [[nodiscard]] std::optional<MemoryRange> grow_for(std::uint64_t bytes);
  // What was used comes back: there may be room for others now.
  void release(const MemoryRange& range) {
    chunks_.release(range);
    growth_failed_ = false;
  }
  // What was not used after all.
  void undo(const MemoryRange& range) { chunks_.release(range); }
  // Takes in what has grown, or gives up when it took too long.
  void finish_growth() {
    if (growth_) look_at_growth();
  }
  [[nodiscard]] bool growing() const { return static_cast<bool>(growth_); }
  // It has tried to grow in vain since memory last came back.
  [[nodiscard]] bool cannot_grow() const { return growth_failed_ && !growth_; }
  [[nodiscard]] std::uint64_t bytes_in_use() const { return chunks_.bytes_in_use(); }

  // Without the lock. Waits for the keeper if need be.
  [[nodiscard]] std::optional<MemoryRange> allocate_and_wait(std::uint64_t bytes) {
    return regions_.allocate_in(chunks_, bytes);
  }
  // At the end.
  void close() {
    if (growth_) growth_.take().unmap();
  }

 private:
  void start_growth(std::uint64_t bytes);
  void look_at_growth();
  void take_in(Region region);

  Regions& regions_;
  RangeAllocator chunks_;
  ExpectedRegion growth_;
  std::chrono::steady_clock::time_point growth_deadline_;
  bool growth_failed_ = false;
};

}  // namespace outrigger::client
