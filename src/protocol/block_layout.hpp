// Places of a rank's blocks for the members of a group in one buffer. All layers use this description:
//
//   struct                    Base         Extents
//   client::BufferLayout      a pointer    a span of the caller, copied by post()
//   SlotLayout                a LocalRef   a LocalRef: an array in memory that the service process maps
//   engine::BlockLayout       a MemoryRef  a vector of its own
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "protocol/memory.hpp"

namespace outrigger {

// Offsets from a buffer's base: [low, high).
struct OffsetRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
  [[nodiscard]] constexpr bool empty() const { return low == high; }
  [[nodiscard]] constexpr std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  }
};

template <class Base, class Extents>
struct BlockLayout {
  Base base{};
  // Without extents member i's block is `block_bytes` at base + i * stride_bytes.
  std::int64_t stride_bytes = 0;
  std::uint64_t block_bytes = 0;
  // With extents, one for each member, extents[i] is its place.
  Extents extents{};

  // For code with direct access to the extents.
  [[nodiscard]] constexpr std::uint64_t bytes(std::uint32_t member) const {
    return extents.empty() ? block_bytes : extents[member].bytes;
  }
  // Modulo 2^64: code that touches memory checks the range.
  [[nodiscard]] constexpr std::uint64_t offset_bytes(std::uint32_t member) const {
    return extents.empty() ? static_cast<std::uint64_t>(stride_bytes) * member
                           : static_cast<std::uint64_t>(extents[member].offset_bytes);
  }
  // Range of all blocks, without empty ones. nullopt if the offsets overflow.
  [[nodiscard]] constexpr std::optional<OffsetRange> range(std::uint32_t members) const {
    OffsetRange all;
    const auto include = [&all](std::int64_t offset, std::uint64_t length) {
      std::int64_t end = 0;
      if (length == 0) return true;
      if (__builtin_add_overflow(offset, length, &end)) return false;
      all = all.empty() ? OffsetRange{offset, end} : OffsetRange{std::min(all.low, offset), std::max(all.high, end)};
      return true;
    };
    if (extents.empty()) {
      std::int64_t last = 0;
      std::int64_t end = 0;
      if (__builtin_mul_overflow(stride_bytes, static_cast<std::int64_t>(members) - 1, &last)) return std::nullopt;
      if (block_bytes == 0) return all;
      if (__builtin_add_overflow(std::max<std::int64_t>(0, last), block_bytes, &end)) return std::nullopt;
      return OffsetRange{std::min<std::int64_t>(0, last), end};
    }
    for (const PairExtent& extent : extents) {
      if (!include(extent.offset_bytes, extent.bytes)) return std::nullopt;
    }
    return all;
  }
};

}  // namespace outrigger
