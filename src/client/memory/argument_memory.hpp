// Memory beside the slots for service processes: extents, members of groups, delivered marks, overflow records. It
// starts with the segment's arena, behind the slots' own marks, and grows by regions. A post that needs more starts the
// growth and continues; the memory is available once the service processes have answered.
//
// Under the lock, except allocate_and_wait().
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
  // Starts to grow. Returns a range if the growth took no time.
  [[nodiscard]] std::optional<MemoryRange> grow_for(std::uint64_t bytes);
  // Used memory comes back, so waiting posts may have room.
  void release(const MemoryRange& range) {
    chunks_.release(range);
    growth_failed_ = false;
  }
  // Unused memory comes back.
  void undo(const MemoryRange& range) { chunks_.release(range); }
  // Adds grown memory, or stops waiting for it after a time limit.
  void finish_growth() {
    if (growth_) look_at_growth();
  }
  [[nodiscard]] bool growing() const { return static_cast<bool>(growth_); }
  // The last growth failed, and no memory has come back since.
  [[nodiscard]] bool cannot_grow() const { return growth_failed_ && !growth_; }
  [[nodiscard]] std::uint64_t bytes_in_use() const { return chunks_.bytes_in_use(); }

  // Without the lock. Waits for the keeper if necessary.
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
