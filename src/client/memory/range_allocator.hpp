// Allocates ranges from a few chunks of memory: first fit with coalescing, behind a short free list per power of two,
// which makes common small sizes take a few nanoseconds. All bookkeeping is outside of the managed memory, which other
// processes can write.
//
// Thread rule: the owner locks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "protocol/ids.hpp"

namespace outrigger::client {

struct MemoryRange {
  RegionId region = kPrivateRegion;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // as rounded by the allocator; 0: nothing
};

class RangeAllocator {
 public:
  RangeAllocator();

  // `address` and `bytes` are multiples of 64. Adjacent chunks of one region are merged.
  void add_chunk(RegionId region, std::uint64_t address, std::uint64_t bytes);

  // 64-byte aligned. nullopt if no chunk has room.
  [[nodiscard]] std::optional<MemoryRange> allocate(std::uint64_t bytes);
  void release(const MemoryRange& range);
  // Removes all free memory.
  [[nodiscard]] std::vector<MemoryRange> take_all();

  [[nodiscard]] std::uint64_t bytes_in_use() const { return bytes_in_use_; }

  // Requests are rounded up to this; a chunk of that size always holds the request.
  [[nodiscard]] static std::uint64_t rounded(std::uint64_t bytes);
  // Size of a chunk to add if a request does not fit.
  [[nodiscard]] static std::uint64_t chunk_bytes_for(std::uint64_t bytes) {
    return std::max(kLeastChunkBytes, rounded(bytes));
  }

 private:
  static constexpr std::uint64_t kLeastChunkBytes = 4ULL << 20;
  static constexpr std::uint64_t kAlignment = 64;
  static constexpr std::size_t kSmallClasses = 11;  // 64 bytes to 64 KiB
  static constexpr std::uint64_t kLargestSmall = kAlignment << (kSmallClasses - 1);
  static constexpr std::size_t kCachedPerClass = 64;

  struct Free {
    std::uint64_t bytes = 0;
    RegionId region;
  };

  [[nodiscard]] static std::size_t class_of(std::uint64_t rounded_bytes);
  [[nodiscard]] std::optional<MemoryRange> first_fit(std::uint64_t rounded_bytes);
  void coalesce(const MemoryRange& range);
  void flush_small();

  std::map<std::uint64_t, Free> free_;  // by address
  std::array<std::vector<MemoryRange>, kSmallClasses> small_;
  std::uint64_t bytes_in_use_ = 0;
};

}  // namespace outrigger::client
