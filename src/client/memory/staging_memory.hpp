// Temporary memory that service processes map, for packing and unpacking. Small pieces share chunks; large ones have a
// region each, some of which are kept for reuse. If no region can be added, for lack of descriptors, memory or a
// keeper, it is private memory, if service processes reach that.
//
// Without the lock.
#pragma once

#include <chrono>
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

  // Any size, no alignment beyond 64 bytes. nullptr: there is none. May wait for the keeper.
  [[nodiscard]] void* allocate(std::uint64_t bytes) noexcept;
  void release(void* memory) noexcept;
  // Under the lock.
  [[nodiscard]] std::uint64_t bytes_in_use() const { return bytes_in_use_; }

 private:
  using Clock = std::chrono::steady_clock;

  // From existing memory.
  [[nodiscard]] std::optional<MemoryRange> reuse(std::uint64_t bytes);
  // From a new region.
  [[nodiscard]] std::optional<MemoryRange> add_region_for(std::uint64_t bytes);
  [[nodiscard]] std::optional<MemoryRange> add_large(std::uint64_t bytes);
  [[nodiscard]] std::optional<MemoryRange> allocate_private(std::uint64_t bytes) const;
  [[nodiscard]] bool private_does() const;
  // Under the lock.
  [[nodiscard]] std::optional<MemoryRange> take_idle(std::uint64_t bytes);
  // The oldest idle regions beyond the limit.
  [[nodiscard]] std::vector<Region> take_surplus();

  EndpointLock& lock_;
  Regions& regions_;
  RangeAllocator chunks_;  // of mapped memory
  std::unordered_map<const void*, MemoryRange> in_use_;
  std::vector<MemoryRange> idle_;  // large ones, oldest first
  std::uint64_t idle_bytes_ = 0;
  std::uint64_t bytes_in_use_ = 0;
  Clock::time_point next_region_;  // time of the next try to add one
};

}  // namespace outrigger::client
