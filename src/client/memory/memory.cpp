// Regions for the program, staging, and the growth of argument memory.
#include <algorithm>

#include "client/rank_endpoint.hpp"

namespace outrigger::client {
namespace {

constexpr std::chrono::milliseconds kRegionTimeout{5000};
constexpr std::uint64_t kChunkBytes = 4ULL << 20;
// Staging above this has a region of its own.
constexpr std::uint64_t kLargestStagingInChunk = 512ULL << 10;
// Regions for large staging that are kept although nobody uses them. Beyond it the oldest goes.
constexpr std::uint64_t kIdleStagingBytes = 64ULL << 20;

void* pointer_to(const MemoryRange& range) {
  return reinterpret_cast<void*>(range.address);
}

std::uint64_t chunk_bytes_for(std::uint64_t bytes) {
  return std::max(kChunkBytes, RangeAllocator::rounded(bytes));
}

}  // namespace

std::optional<Region> RankEndpoint::new_region(RegionUse use, std::uint64_t bytes) {
  if (live_regions_.fetch_add(1) >= kMaxRegionsPerRank) {
    live_regions_.fetch_sub(1);
    return std::nullopt;
  }
  std::optional<Region> region = create_region(use, bytes);
  if (!region) live_regions_.fetch_sub(1);
  return region;
}

void RankEndpoint::discard_unannounced(Region region) {
  region.unmap();
  live_regions_.fetch_sub(1);
}

void RankEndpoint::drop_region(Region region) {
  if (keys_) {
    const Lock lock(mutex_);
    keys_->release(region.id);
    keys_->forget(region.address(), region.bytes);
  } else if (!inert()) {
    control_.drop_region(region.id, true);
  }
  discard_unannounced(std::move(region));
}

// No service process maps it: it is reached as the program's memory is. Under the lock.
bool RankEndpoint::register_region(Region& region) {
  const std::optional<RegionId> key = keys_->use(region.address(), region.bytes);
  if (!key) return false;
  region.id = *key;
  region.fd.reset();
  return true;
}

std::optional<Region> RankEndpoint::add_region_and_wait(RegionUse use, std::uint64_t bytes) {
  std::optional<Region> region = new_region(use, bytes);
  if (!region) return std::nullopt;
  if (keys_) {
    Lock lock(mutex_);
    const bool keyed = register_region(*region);
    lock.unlock();
    if (keyed) return region;
    discard_unannounced(std::move(*region));
    return std::nullopt;
  }
  if (!control_.announce(*region, true)) {
    discard_unannounced(std::move(*region));
    return std::nullopt;
  }
  if (control_.wait_for_answer(region->id, kRegionTimeout) == RegionAnswer::accepted) return region;
  drop_region(std::move(*region));
  return std::nullopt;
}

void* RankEndpoint::allocate(std::uint64_t bytes) {
  if (inert() || (welcome_.reach & kReachMapped) == 0) return nullptr;
  std::optional<Region> region = add_region_and_wait(RegionUse::program, bytes);
  if (!region) return nullptr;
  void* memory = region->base;
  const Lock lock(mutex_);
  regions_.insert(std::move(*region));
  return memory;
}

bool RankEndpoint::release(void* memory) {
  std::optional<Region> region;
  {
    const Lock lock(mutex_);
    region = regions_.take(memory, RegionUse::program);
  }
  if (!region) return false;
  drop_region(std::move(*region));
  return true;
}

RegionId RankEndpoint::region_of(const void* begin, std::uint64_t bytes) {
  const Lock lock(mutex_);
  if (inert()) return kPrivateRegion;
  if (keys_) {
    const std::optional<RegionId> key = keys_->use(reinterpret_cast<std::uintptr_t>(begin), bytes);
    if (!key) return kPrivateRegion;
    keys_->release(*key);
    return *key;
  }
  const Region* region = regions_.find(reinterpret_cast<std::uintptr_t>(begin), bytes);
  return region == nullptr ? kPrivateRegion : region->id;
}

std::optional<MemoryRange> RankEndpoint::allocate_in_chunks(RangeAllocator& chunks, std::uint64_t bytes) {
  {
    const Lock lock(mutex_);
    if (std::optional<MemoryRange> range = chunks.allocate(bytes)) return range;
  }
  std::optional<Region> region = add_region_and_wait(RegionUse::internal, chunk_bytes_for(bytes));
  if (!region) return std::nullopt;
  const Lock lock(mutex_);
  chunks.add_chunk(region->id, region->address(), region->bytes);
  regions_.insert(std::move(*region));
  return chunks.allocate(bytes);
}

// --- staging ---

std::optional<MemoryRange> RankEndpoint::take_idle_staging(std::uint64_t bytes) {
  const Lock lock(mutex_);
  const auto fits = [bytes](const MemoryRange& range) { return range.bytes >= bytes && range.bytes / 2 <= bytes; };
  const auto found = std::find_if(staging_idle_.begin(), staging_idle_.end(), fits);
  if (found == staging_idle_.end()) return std::nullopt;
  const MemoryRange range = *found;
  staging_idle_.erase(found);
  staging_idle_bytes_ -= range.bytes;
  return range;
}

void* RankEndpoint::allocate_staging(std::uint64_t bytes) {
  if (inert()) return nullptr;
  std::optional<MemoryRange> range;
  if (bytes <= kLargestStagingInChunk) {
    range = allocate_in_chunks(staging_, bytes);
  } else if (range = take_idle_staging(bytes); !range) {
    std::optional<Region> region = add_region_and_wait(RegionUse::internal, bytes);
    if (!region) return nullptr;
    range = MemoryRange{region->id, region->address(), region->bytes};
    const Lock lock(mutex_);
    regions_.insert(std::move(*region));
  }
  if (!range) return nullptr;
  const Lock lock(mutex_);
  staging_in_use_.emplace(pointer_to(*range), *range);
  staging_bytes_ += range->bytes;
  return pointer_to(*range);
}

void RankEndpoint::release_staging(void* memory) {
  std::vector<Region> dropped;
  {
    const Lock lock(mutex_);
    const auto found = staging_in_use_.find(memory);
    if (inert() || found == staging_in_use_.end()) return;
    const MemoryRange range = found->second;
    staging_in_use_.erase(found);
    staging_bytes_ -= range.bytes;
    if (range.bytes <= kLargestStagingInChunk) {
      staging_.release(range);
      return;
    }
    staging_idle_.push_back(range);
    staging_idle_bytes_ += range.bytes;
    while (staging_idle_bytes_ > kIdleStagingBytes) {
      const MemoryRange oldest = staging_idle_.front();
      staging_idle_.erase(staging_idle_.begin());
      staging_idle_bytes_ -= oldest.bytes;
      if (std::optional<Region> region = regions_.take(pointer_to(oldest), RegionUse::internal)) {
        dropped.push_back(std::move(*region));
      }
    }
  }
  for (Region& region : dropped) drop_region(std::move(region));
}

// --- argument memory ---

void RankEndpoint::start_growth(std::uint64_t bytes) {
  if (growth_ || growth_failed_) return;
  // In proportion to what there is: the number of regions is limited, that of operations is not.
  growth_ = new_region(RegionUse::internal, chunk_bytes_for(std::max(bytes, arguments_.bytes_in_use() / 4)));
  growth_failed_ = !growth_;
  if (!growth_) return;
  if (keys_) {
    Region region = std::move(*growth_);
    growth_.reset();
    growth_failed_ = !register_region(region);
    if (growth_failed_) return discard_unannounced(std::move(region));
    arguments_.add_chunk(region.id, region.address(), region.bytes);
    return regions_.insert(std::move(region));
  }
  growth_deadline_ = std::chrono::steady_clock::now() + kRegionTimeout;
  growth_announced_ = control_.announce(*growth_, false);
}

void RankEndpoint::finish_growth() {
  if (!growth_) return;
  if (!growth_announced_) growth_announced_ = control_.announce(*growth_, false);
  const RegionAnswer answer = growth_announced_ ? control_.answer(growth_->id) : RegionAnswer::pending;
  const bool in_time = std::chrono::steady_clock::now() < growth_deadline_ && !control_.is_lost();
  if (answer == RegionAnswer::pending && in_time) return;
  Region region = std::move(*growth_);
  growth_.reset();
  if (answer == RegionAnswer::accepted) {
    arguments_.add_chunk(region.id, region.address(), region.bytes);
    regions_.insert(std::move(region));
    return;
  }
  growth_failed_ = true;
  if (growth_announced_) control_.drop_region(region.id, false);
  discard_unannounced(std::move(region));
}

}  // namespace outrigger::client
