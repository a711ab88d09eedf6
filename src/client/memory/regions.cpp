#include "client/memory/regions.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/no_cancellation.hpp"

namespace outrigger::client {
namespace {

// Longer than a replacement of a hung service process takes: staging waits for the answer.
constexpr std::chrono::milliseconds kAnswerTimeout{20'000};

}  // namespace

Regions::Regions(EndpointLock& lock, ControlChannel& control, RankNetwork* network, SegmentView segment,
                 std::uint32_t reach)
    : lock_(lock), control_(control), reach_(reach) {
  if (network == nullptr) return;
  registrations_.emplace(*network, segment, network->unmapped());
  registers_.store(true, std::memory_order_release);
}

bool Regions::admit() {
  if (live_.fetch_add(1) < kMaxRegionsPerRank) return true;
  live_.fetch_sub(1);
  return false;
}

std::optional<Region> Regions::create(std::uint64_t bytes) {
  const NoCancellation whole;
  if (!admit()) return std::nullopt;
  std::optional<Region> region = create_region(bytes);
  if (!region) live_.fetch_sub(1);
  return region;
}

void Regions::discard_unannounced(Region region) {
  const NoCancellation whole;
  region.unmap();
  live_.fetch_sub(1);
}

void Regions::drop(Region region) {
  if (registers()) {
    const Lock lock(lock_.mutex);
    if (registers()) {
      registrations_->release(region.id);
      registrations_->forget(region.address(), region.bytes);
    }
  } else if (!lock_.is_inert() && !is_keyed(region.id)) {  // a DPU may use it until the rank leaves
    control_.drop_region(region.id, true);
  }
  discard_unannounced(std::move(region));
}

// Keeps the descriptor: if the DPU is lost, service processes of the host map the memory.
bool Regions::register_now(Region& region) {
  const std::optional<RegionId> registered = registrations_->use(region.address(), region.bytes);
  if (!registered) return false;
  region.id = *registered;
  return true;
}

std::vector<Region> Regions::leave_dpu() {
  ++changes_;
  registers_.store(false, std::memory_order_release);
  reach_.fetch_or(kReachCma, std::memory_order_relaxed);
  registrations_->drop_all();
  std::vector<Region> all;
  for (Region& region : table_.all()) {
    if (region.use == RegionUse::internal && region.fd.valid())
      all.push_back(Region{region.id, region.use, region.base, region.bytes, std::move(region.fd)});
  }
  return all;
}

std::optional<Region> Regions::make_known(Region region) {
  if (registers()) {
    const Lock lock(lock_.mutex);
    if (registers() && register_now(region)) return region;
  } else if (control_.announce(region, true)) {
    if (control_.wait_for_answer(region.id, kAnswerTimeout) == RegionAnswer::accepted) return region;
    drop(std::move(region));
    return std::nullopt;
  }
  discard_unannounced(std::move(region));
  return std::nullopt;
}

std::optional<Region> Regions::add(std::uint64_t bytes) {
  std::optional<Region> region = create(bytes);
  return region ? make_known(std::move(*region)) : std::nullopt;
}

std::optional<MemoryRange> Regions::allocate_in(RangeAllocator& chunks, std::uint64_t bytes) {
  {
    const Lock lock(lock_.mutex);
    if (std::optional<MemoryRange> range = chunks.allocate(bytes)) return range;
  }
  std::optional<Region> region = add(RangeAllocator::chunk_bytes_for(bytes));
  if (!region) return std::nullopt;
  Lock lock(lock_.mutex);
  if (is_keyed(region->id) && !registers()) {  // the rank has left the DPU that knew it
    lock.unlock();
    region = make_known(std::move(*region));
    if (!region) return std::nullopt;
    lock.lock();
  }
  chunks.add_chunk(region->id, region->address(), region->bytes);
  insert(std::move(*region));
  return chunks.allocate(bytes);
}

void Regions::close() {
  for (Region& region : table_.all()) region.unmap();
  table_.all().clear();
}

RegionAnswer ExpectedRegion::look(ControlChannel& control) {
  if (!announced_) announced_ = control.announce(*region_, false);
  return announced_ ? control.answer(region_->id) : RegionAnswer::pending;
}

}  // namespace outrigger::client
