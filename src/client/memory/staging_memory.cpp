#include "client/memory/staging_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace outrigger::client {
namespace {

// Larger staging has a region of its own.
constexpr std::uint64_t kLargestInChunk = 512ULL << 10;
// Idle regions for large staging that are kept. Beyond it the oldest is dropped.
constexpr std::uint64_t kIdleBytes = 64ULL << 20;
// After a failure: each try costs time, and the next ones would mostly fail, too.
constexpr std::chrono::seconds kBetweenTries{1};

void* pointer_to(const MemoryRange& range) {
  return reinterpret_cast<void*>(range.address);
}

}  // namespace

void* StagingMemory::allocate(std::uint64_t bytes) noexcept try {
  if (lock_.is_inert()) return nullptr;
  std::optional<MemoryRange> range = reuse(bytes);
  if (!range) range = add_region_for(bytes);
  if (!range) range = allocate_private(bytes);
  if (!range) return nullptr;
  const Lock lock(lock_.mutex);
  in_use_.emplace(pointer_to(*range), *range);
  bytes_in_use_ += range->bytes;
  return pointer_to(*range);
} catch (...) {
  return nullptr;
}

std::optional<MemoryRange> StagingMemory::reuse(std::uint64_t bytes) {
  const Lock lock(lock_.mutex);
  return bytes <= kLargestInChunk ? chunks_.allocate(bytes) : take_idle(bytes);
}

std::optional<MemoryRange> StagingMemory::add_region_for(std::uint64_t bytes) {
  {
    const Lock lock(lock_.mutex);
    if (Clock::now() < next_region_) return std::nullopt;
  }
  std::optional<MemoryRange> range = bytes <= kLargestInChunk ? regions_.allocate_in(chunks_, bytes) : add_large(bytes);
  if (range || !private_does()) return range;
  const Lock lock(lock_.mutex);
  next_region_ = Clock::now() + kBetweenTries;
  return std::nullopt;
}

std::optional<MemoryRange> StagingMemory::add_large(std::uint64_t bytes) {
  std::optional<Region> region = regions_.add(bytes);
  if (!region) return std::nullopt;
  const MemoryRange range{region->id, region->address(), region->bytes};
  const Lock lock(lock_.mutex);
  regions_.insert(std::move(*region));
  return range;
}

// On a DPU it is registered, like the program's memory.
bool StagingMemory::private_does() const {
  return regions_.private_is_reached() || regions_.registers();
}

std::optional<MemoryRange> StagingMemory::allocate_private(std::uint64_t bytes) const {
  if (!private_does()) return std::nullopt;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) return std::nullopt;
  return MemoryRange{kPrivateRegion, reinterpret_cast<std::uintptr_t>(memory), bytes};
}

std::optional<MemoryRange> StagingMemory::take_idle(std::uint64_t bytes) {
  const auto fits = [bytes](const MemoryRange& range) { return range.bytes >= bytes && range.bytes / 2 <= bytes; };
  const auto found = std::find_if(idle_.begin(), idle_.end(), fits);
  if (found == idle_.end()) return std::nullopt;
  const MemoryRange range = *found;
  idle_.erase(found);
  idle_bytes_ -= range.bytes;
  return range;
}

void StagingMemory::release(void* memory) noexcept try {
  std::vector<Region> surplus;
  {
    const Lock lock(lock_.mutex);
    const auto found = in_use_.find(memory);
    if (lock_.is_inert() || found == in_use_.end()) return;
    const MemoryRange range = found->second;
    in_use_.erase(found);
    bytes_in_use_ -= range.bytes;
    if (range.region == kPrivateRegion) return std::free(memory);
    if (range.bytes <= kLargestInChunk) return chunks_.release(range);
    idle_.push_back(range);
    idle_bytes_ += range.bytes;
    surplus = take_surplus();
  }
  for (Region& region : surplus) regions_.drop(std::move(region));
} catch (...) {
  // No memory to remember it by: it is lost.
}

std::vector<Region> StagingMemory::take_surplus() {
  std::vector<Region> surplus;
  while (idle_bytes_ > kIdleBytes) {
    const MemoryRange oldest = idle_.front();
    idle_.erase(idle_.begin());
    idle_bytes_ -= oldest.bytes;
    if (std::optional<Region> region = regions_.take(pointer_to(oldest))) surplus.push_back(std::move(*region));
  }
  return surplus;
}

}  // namespace outrigger::client
