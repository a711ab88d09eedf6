#include "client/memory/range_allocator.hpp"

#include <iterator>

namespace outrigger::client {

RangeAllocator::RangeAllocator() {
  for (std::vector<MemoryRange>& cached : small_) cached.reserve(kCachedPerClass);
}

void RangeAllocator::add_chunk(RegionId region, std::uint64_t address, std::uint64_t bytes) {
  coalesce(MemoryRange{region, address, bytes});
}

std::optional<MemoryRange> RangeAllocator::allocate_anew(std::uint64_t rounded_bytes) {
  std::optional<MemoryRange> range = first_fit(rounded_bytes);
  if (!range) {
    flush_small();
    range = first_fit(rounded_bytes);
  }
  if (range) bytes_in_use_ += range->bytes;
  return range;
}

std::vector<MemoryRange> RangeAllocator::take_all() {
  flush_small();
  std::vector<MemoryRange> all;
  all.reserve(free_.size());
  for (const auto& [address, free] : free_) all.push_back(MemoryRange{free.region, address, free.bytes});
  free_.clear();
  return all;
}

std::optional<MemoryRange> RangeAllocator::first_fit(std::uint64_t rounded_bytes) {
  for (auto entry = free_.begin(); entry != free_.end(); ++entry) {
    if (entry->second.bytes < rounded_bytes) continue;
    // Takes the end, so that the entry keeps its key.
    entry->second.bytes -= rounded_bytes;
    const MemoryRange range{entry->second.region, entry->first + entry->second.bytes, rounded_bytes};
    if (entry->second.bytes == 0) free_.erase(entry);
    return range;
  }
  return std::nullopt;
}

void RangeAllocator::coalesce(const MemoryRange& range) {
  auto entry = free_.emplace(range.address, Free{range.bytes, range.region}).first;
  const auto touches = [](auto left, auto right) {
    return left->second.region == right->second.region && left->first + left->second.bytes == right->first;
  };
  if (const auto next = std::next(entry); next != free_.end() && touches(entry, next)) {
    entry->second.bytes += next->second.bytes;
    free_.erase(next);
  }
  if (entry == free_.begin()) return;
  if (const auto previous = std::prev(entry); touches(previous, entry)) {
    previous->second.bytes += entry->second.bytes;
    free_.erase(entry);
  }
}

void RangeAllocator::flush_small() {
  for (std::vector<MemoryRange>& cached : small_) {
    while (!cached.empty()) {
      coalesce(cached.back());
      cached.pop_back();
    }
  }
}

}  // namespace outrigger::client
