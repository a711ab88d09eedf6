#include "client/memory/range_allocator.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace outrigger::client {
namespace {

TEST(RangeAllocator, RandomUseNeverOverlapsAndEverythingComesBack) {
  RangeAllocator allocator;
  // Two chunks side by side: a range must never span both.
  allocator.add_chunk(RegionId(2), 1 << 20, 1 << 20);
  allocator.add_chunk(RegionId(3), 2 << 20, 1 << 20);
  std::mt19937_64 random(7);
  std::map<std::uint64_t, MemoryRange> used;
  for (int step = 0; step < 50000; ++step) {
    if (!used.empty() && random() % 2 == 0) {
      const auto victim = std::next(used.begin(), static_cast<std::ptrdiff_t>(random() % used.size()));
      allocator.release(victim->second);
      used.erase(victim);
      continue;
    }
    const std::uint64_t wanted = 1 + random() % (std::uint64_t{1} << (random() % 18));
    const auto range = allocator.allocate(wanted);
    if (!range) continue;
    ASSERT_GE(range->bytes, wanted);
    ASSERT_EQ(range->address % 64, 0U);
    const std::uint64_t chunk = range->region == RegionId(2) ? 1 << 20 : 2 << 20;
    ASSERT_GE(range->address, chunk);
    ASSERT_LE(range->address + range->bytes, chunk + (1 << 20));
    const auto next = used.lower_bound(range->address);
    ASSERT_TRUE(next == used.end() || range->address + range->bytes <= next->first);
    ASSERT_TRUE(next == used.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= range->address);
    used.emplace(range->address, *range);
  }
  for (const auto& [address, range] : used) allocator.release(range);
  EXPECT_EQ(allocator.bytes_in_use(), 0U);
  // No fragments left: both chunks are whole.
  EXPECT_TRUE(allocator.allocate(1 << 20));
  EXPECT_TRUE(allocator.allocate(1 << 20));
  EXPECT_FALSE(allocator.allocate(1));
}

TEST(RangeAllocator, NothingWithoutChunks) {
  EXPECT_FALSE(RangeAllocator().allocate(1));
}

}  // namespace
}  // namespace outrigger::client
