// Temporary memory that service processes map, for packing and unpacking. Small pieces share chunks; large ones have a
// region each, some of which are kept for the next time. Once the keeper is gone, which no region can be announced to,
// what there is not enough of is memory of this process alone, where service processes reach that.
//
// Without the lock.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "client/memory/range_allocator.hpp"
#include "client/memory/regions.hpp"

namespace outrigger::client {

class StagingMemory {
 public:
  StagingMemory(EndpointLock& lock, Regions& regions) : lock_(lock), regions_(regions) {}

  [[nodiscard]] void* allocate(std::uint64_t bytes);
  void release(void* memory);
  // Under the lock.
  [[nodiscard]] std::uint64_t bytes_in_use() const { return bytes_in_use_; }

 private:
  [[nodiscard]] std::optional<MemoryRange> allocate_large(std::uint64_t bytes);
  [[nodiscard]] std::optional<MemoryRange> allocate_private(std::uint64_t bytes) const;
  [[nodiscard]] std::optional<MemoryRange> take_idle(std::uint64_t bytes);
  // Of what is kept, the oldest beyond the limit.
  [[nodiscard]] std::vector<Region> take_surplus();

  EndpointLock& lock_;
  Regions& regions_;
  RangeAllocator chunks_;  // of what is mapped
  std::unordered_map<const void*, MemoryRange> in_use_;
  std::vector<MemoryRange> idle_;  // large ones, the oldest first
  std::uint64_t idle_bytes_ = 0;
  std::uint64_t bytes_in_use_ = 0;
};

}  // namespace outrigger::client
