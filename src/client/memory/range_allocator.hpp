// Allocates ranges from a few chunks of memory: first fit with coalescing, behind a short free list per power of two,
// which makes common small sizes take a few nanoseconds. All bookkeeping is outside of the managed memory, which other
// processes can write.
//
// Thread rule: the owner locks.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
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

  // 64-byte aligned. Nothing when no chunk has room.
  [[nodiscard]] std::optional<MemoryRange> allocate(std::uint64_t bytes) {
    const std::uint64_t wanted = rounded(bytes);
    if (wanted > kLargestSmall || small_[class_of(wanted)].empty()) return allocate_anew(wanted);
    std::vector<MemoryRange>& cached = small_[class_of(wanted)];
    const MemoryRange range = cached.back();
    cached.pop_back();
    bytes_in_use_ += range.bytes;
    return range;
  }
  void release(const MemoryRange& range) {
    if (range.bytes == 0) return;
    bytes_in_use_ -= range.bytes;
    if (range.bytes <= kLargestSmall && small_[class_of(range.bytes)].size() < kCachedPerClass) {
      small_[class_of(range.bytes)].push_back(range);
    } else {
      coalesce(range);
    }
  }
  // All that is free. The allocator has nothing left to hand out.
  [[nodiscard]] std::vector<MemoryRange> take_all();

  [[nodiscard]] std::uint64_t bytes_in_use() const { return bytes_in_use_; }

  // Requests are rounded up to this; a chunk of that size is certain to hold the request.
  [[nodiscard]] static std::uint64_t rounded(std::uint64_t bytes) {
    if (bytes <= kAlignment) return kAlignment;
    if (bytes <= kLargestSmall) return std::bit_ceil(bytes);
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  // The size of the chunk to add if a request of `bytes` does not fit.
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

  [[nodiscard]] static std::size_t class_of(std::uint64_t rounded_bytes) {
    return static_cast<std::size_t>(std::bit_width(rounded_bytes) - std::bit_width(kAlignment));
  }
  [[nodiscard]] std::optional<MemoryRange> allocate_anew(std::uint64_t rounded_bytes);
  [[nodiscard]] std::optional<MemoryRange> first_fit(std::uint64_t rounded_bytes);
  void coalesce(const MemoryRange& range);
  void flush_small();

  std::map<std::uint64_t, Free> free_;  // by address
  std::array<std::vector<MemoryRange>, kSmallClasses> small_;
  std::uint64_t bytes_in_use_ = 0;
};

}  // namespace outrigger::client
