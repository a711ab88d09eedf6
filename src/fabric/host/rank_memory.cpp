#include "fabric/host/rank_memory.hpp"

#include <limits>
#include <span>
#include <string>
#include <utility>

#include "fabric/host/lanes/cma.hpp"

namespace outrigger::fabric {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kHighestAddress = std::numeric_limits<std::uint64_t>::max();

}  // namespace

RankMemory::RankMemory(pid_t pid, Mapping segment, bool private_reachable)
    : pid_(pid), segment_(std::make_shared<const Mapping>(std::move(segment))), private_reachable_(private_reachable) {}

Status RankMemory::add_region(RegionId region, std::uint64_t base, Mapping mapping) {
  const std::string name = "region " + std::to_string(region.value());
  if (region < kFirstAddedRegion) return Error{name + " cannot be added: the id is reserved"};
  if (regions_.contains(region)) return Error{name + " cannot be added: the id is in use"};
  if (base % kPageBytes != 0) return Error{name + " does not start at a page"};
  if (mapping.bytes() > kHighestAddress - base) return Error{name + " is beyond the address space"};
  regions_.emplace(region, Region{base, std::make_shared<const Mapping>(std::move(mapping))});
  return Done{};
}

Status RankMemory::add_range(RegionId region, std::uint64_t base, std::uint64_t bytes) {
  const std::string name = "region " + std::to_string(region.value());
  if (region < kFirstAddedRegion) return Error{name + " cannot be added: the id is reserved"};
  if (bytes > kHighestAddress - base) return Error{name + " is beyond the address space"};
  ranges_.insert_or_assign(region, Range{base, bytes});
  return Done{};
}

bool RankMemory::drop_region(RegionId region) {
  return regions_.erase(region) + ranges_.erase(region) != 0;
}

std::byte* RankMemory::mapped(RegionId region, std::uint64_t address, std::uint64_t bytes) const {
  std::uint64_t first = 0;
  std::uint64_t size = 0;
  std::byte* ours = nullptr;
  if (region == kArenaRegion) {
    // The rank writes the base itself. Whatever the value, the offset below stays inside the arena.
    first = segment().header().rank_base_address.load(std::memory_order_relaxed) + SegmentView::arena_offset();
    size = kArenaBytes;
    ours = segment().arena();
  } else {
    const auto found = regions_.find(region);
    if (found == regions_.end()) return nullptr;
    first = found->second.base;
    size = found->second.mapping->bytes();
    ours = found->second.mapping->base();
  }
  const std::uint64_t offset = address - first;  // addresses below the region wrap to a huge offset
  if (offset > size || bytes > size - offset) return nullptr;
  return ours + offset;
}

std::shared_ptr<const void> RankMemory::hold(RegionId region) const {
  if (region == kArenaRegion) return segment_;
  const auto found = regions_.find(region);
  return found != regions_.end() ? found->second.mapping : nullptr;
}

bool RankMemory::accessible(RegionId region, std::uint64_t address, std::uint64_t bytes) const {
  if (known_as(region) == kPrivateRegion) return private_reachable_ && bytes <= kHighestAddress - address;
  if (const auto range = ranges_.find(region); range != ranges_.end()) {
    const std::uint64_t offset = address - range->second.base;
    return offset <= range->second.bytes && bytes <= range->second.bytes - offset;
  }
  return mapped(region, address, bytes) != nullptr;
}

std::byte* RankMemory::attached(std::uint64_t address, std::uint64_t bytes) {
  std::byte* ours = windows_ ? windows_->at(address, bytes) : nullptr;
  if (ours == nullptr) windows_.reset();
  return ours;
}

bool RankMemory::name_process(CopyJob& job) {
  if (probe_address_ == 0) return false;
  if (!probe_value_) {
    // All service processes of the node have changed it by now, and it will not change again.
    std::uint64_t value = 0;
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(&value, 1));
    if (read_from_process(pid_, probe_address_, bytes) != MoveStatus::ok) return false;
    probe_value_ = value;
  }
  job.other_pid = pid_;
  job.probe_address = probe_address_;
  job.probe_value = *probe_value_;
  return true;
}

}  // namespace outrigger::fabric
