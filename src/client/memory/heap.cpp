// The shared heap's memory as regions: each generation is one, announced when it has begun. Operations of the meantime
// treat their buffers as private memory.
#include <algorithm>
#include <utility>

#include "client/rank_endpoint.hpp"

namespace outrigger::client {
namespace {

constexpr std::chrono::milliseconds kHeapTimeout{5000};

}  // namespace

std::optional<Region> RankEndpoint::heap_region() {
  SharedHeapGeneration generation;
  if (!heap_->generation(&generation)) return std::nullopt;
  UniqueFd fd(generation.fd);
  if (live_regions_.fetch_add(1) >= kMaxRegionsPerRank) {
    live_regions_.fetch_sub(1);
    return std::nullopt;
  }
  heap_serial_ = generation.serial;
  return Region{RegionId(), RegionUse::heap, reinterpret_cast<std::byte*>(generation.base), generation.bytes,
                std::move(fd)};
}

bool RankEndpoint::share_heap(const SharedHeap& heap) {
  if (inert() || rdma() || (welcome_.reach & kReachMapped) == 0) return false;
  std::optional<Region> region;
  {
    const Lock lock(mutex_);
    heap_ = &heap;
    region = heap_region();
  }
  if (!region) return false;
  if (!control_.announce(*region, true)) {
    discard_unannounced(std::move(*region));
    return false;
  }
  if (control_.wait_for_answer(region->id, kHeapTimeout) != RegionAnswer::accepted) {
    drop_region(std::move(*region));
    return false;
  }
  const Lock lock(mutex_);
  regions_.insert(std::move(*region));
  return true;
}

template <class Visit>
void RankEndpoint::each_in_heap(const Visit& visit) const {
  const auto visit_both = [&visit](const PendingOperation& operation) {
    for (const MemoryRange& range : operation.in_heap) {
      if (range.bytes != 0) visit(range);
    }
  };
  for (const PendingOperation* operation : in_slot_) {
    if (operation != nullptr) visit_both(*operation);
  }
  overflow_.each(visit_both);
  for (const PendingOperation* operation : waiting_) visit_both(*operation);
}

bool RankEndpoint::is_in_flight(const Region& region) const {
  bool found = false;
  each_in_heap([&](const MemoryRange& range) { found = found || range.region == region.id; });
  return found;
}

// The heap's own handlers run after this, before the process is copied.
void RankEndpoint::before_fork() {
  mutex_.lock();
  if (heap_ == nullptr || inert()) return;
  reap();
  each_in_heap([this](const MemoryRange& range) { heap_->hold_at_fork(range.address, range.bytes); });
}

// A fork has ended the generation that was announced.
void RankEndpoint::retire_heap() {
  std::vector<Region>& regions = regions_.all();
  const auto of_heap = [](const Region& region) { return region.use == RegionUse::heap; };
  if (const auto found = std::find_if(regions.begin(), regions.end(), of_heap); found != regions.end()) {
    heap_retired_.push_back(std::move(*found));
    regions.erase(found);
  }
  if (heap_coming_ && heap_announced_) heap_retired_.push_back(std::move(*heap_coming_));
  if (heap_coming_ && !heap_announced_) discard_unannounced(std::move(*heap_coming_));
  heap_coming_.reset();
}

// Announced now, used once the service processes have answered: nobody waits for that.
void RankEndpoint::expect_heap() {
  if (!heap_announced_) heap_announced_ = control_.announce(*heap_coming_, false);
  const RegionAnswer answer = heap_announced_ ? control_.answer(heap_coming_->id) : RegionAnswer::pending;
  if (answer == RegionAnswer::pending) return;
  if (answer == RegionAnswer::accepted) {
    regions_.insert(std::move(*heap_coming_));
  } else {
    discard_unannounced(std::move(*heap_coming_));
  }
  heap_coming_.reset();
}

std::vector<Region> RankEndpoint::follow_heap() {
  std::vector<Region> outdated;
  if (heap_ == nullptr) return outdated;
  if (const std::uint64_t serial = heap_->serial(); serial != heap_serial_) {
    retire_heap();
    heap_serial_ = serial;
    heap_announced_ = false;
    if (serial != 0) heap_coming_ = heap_region();
  }
  if (heap_coming_) expect_heap();
  for (std::size_t i = heap_retired_.size(); i > 0; --i) {
    if (is_in_flight(heap_retired_[i - 1])) continue;
    outdated.push_back(std::move(heap_retired_[i - 1]));
    heap_retired_.erase(heap_retired_.begin() + static_cast<std::ptrdiff_t>(i - 1));
  }
  return outdated;
}

}  // namespace outrigger::client
