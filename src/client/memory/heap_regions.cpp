#include "client/memory/heap_regions.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/no_cancellation.hpp"
#include "client/memory/program_memory.hpp"

namespace outrigger::client {
namespace {

// Calls visit(range) for the heap memory of unfinished operations.
template <class Visit>
void each_in_heap(const Posts& posts, const Visit& visit) {
  posts.each([&visit](const PendingOperation& operation) {
    for (const MemoryRange& range : operation.in_heap) {
      if (range.bytes != 0) visit(range);
    }
  });
}

bool is_in_flight(const Posts& posts, const Region& region) {
  bool found = false;
  each_in_heap(posts, [&](const MemoryRange& range) { found = found || range.region == region.id; });
  return found;
}

}  // namespace

std::optional<Region> HeapRegions::current() {
  SharedHeapGeneration generation;
  if (!heap_->generation(&generation)) return std::nullopt;
  UniqueFd fd(generation.fd);
  if (!regions_.admit()) return std::nullopt;
  serial_ = generation.serial;
  return Region{RegionId(), RegionUse::heap, reinterpret_cast<std::byte*>(generation.base), generation.bytes,
                std::move(fd)};
}

bool HeapRegions::share(const SharedHeap& heap) noexcept try {
  const NoCancellation whole;
  used_.store(true, std::memory_order_relaxed);
  if (!can_map()) return false;
  std::optional<Region> region;
  {
    const Lock lock(lock_.mutex);
    heap_ = &heap;
    region = current();
  }
  if (region) region = regions_.make_known(std::move(*region));
  if (!region) return false;
  const Lock lock(lock_.mutex);
  regions_.insert(std::move(*region));
  return true;
} catch (...) {
  return false;
}

// With the shared heap the native MPI allocates there.
void* HeapRegions::allocate_for_program(std::uint64_t bytes) noexcept try {
  const NoCancellation whole;
  if (!can_map()) return nullptr;
  {
    const Lock lock(lock_.mutex);
    if (heap_ != nullptr && heap_ != &ProgramMemory::as_heap()) return nullptr;
  }
  return ProgramMemory::of_process().allocate(bytes);
} catch (...) {
  return nullptr;
}

void HeapRegions::share_if_for_program(const void* memory) {
  if (ProgramMemory::of_process().holds(memory)) static_cast<void>(share(ProgramMemory::as_heap()));
}

void HeapRegions::hold_at_fork(Posts& posts) {
  if (heap_ == nullptr) return;
  posts.reap();
  each_in_heap(posts, [this](const MemoryRange& range) { heap_->hold_at_fork(range.address, range.bytes); });
}

// A fork has ended the announced generation.
void HeapRegions::retire() {
  if (std::optional<Region> region = regions_.take_heap()) retired_.push_back(std::move(*region));
  if (!coming_) return;
  if (Region region = coming_.take(); coming_.announced()) {
    retired_.push_back(std::move(region));
  } else {
    regions_.discard_unannounced(std::move(region));
  }
}

void HeapRegions::take_in_expected() {
  const RegionAnswer answer = coming_.look(regions_.control());
  if (answer == RegionAnswer::pending) return;
  if (answer == RegionAnswer::accepted) return regions_.insert(coming_.take());
  regions_.discard_unannounced(coming_.take());
}

std::vector<Region> HeapRegions::follow_generations(const Posts& posts) {
  if (const std::uint64_t serial = heap_->serial(); serial != serial_) {
    retire();
    serial_ = serial;
    std::optional<Region> region = serial != 0 ? current() : std::nullopt;
    if (region) coming_.expect(std::move(*region));
  }
  if (coming_) take_in_expected();
  const auto first = std::stable_partition(retired_.begin(), retired_.end(),
                                           [&](const Region& region) { return is_in_flight(posts, region); });
  std::vector<Region> outdated(std::make_move_iterator(first), std::make_move_iterator(retired_.end()));
  retired_.erase(first, retired_.end());
  return outdated;
}

}  // namespace outrigger::client
