#include "client/memory/program_memory.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <limits>
#include <utility>

#include "base/no_cancellation.hpp"
#include "base/shared_memory.hpp"
#include "base/unique_fd.hpp"
#include "client/memory/region.hpp"
#include "client/memory/whole_pages.hpp"

namespace outrigger::client {
namespace {

constexpr std::uint64_t kMostBytes = std::numeric_limits<std::uint64_t>::max() / 2;

// Descriptors belong to the program: this memory takes one only from the lower half of its limit.
bool leaves_descriptors_for_the_program() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  const UniqueFd next(::memfd_create("outrigger-probe", MFD_CLOEXEC));
  return next.valid() && static_cast<rlim_t>(next.get()) < limit.rlim_cur / 2;
}

}  // namespace

// Never destroyed: the program may use its memory while it exits.
ProgramMemory& ProgramMemory::of_process() {
  static auto* const instance = new ProgramMemory;
  return *instance;
}

bool ProgramMemory::open() {
  if (!std::exchange(tried_, true)) {
    opened_.store(leaves_descriptors_for_the_program() && space_.open(), std::memory_order_release);
  }
  return !space_.closed();
}

void* ProgramMemory::allocate(std::uint64_t bytes) {
  if (bytes == 0 || bytes > kMostBytes) return nullptr;
  const NoCancellation whole;
  const std::scoped_lock lock(mutex_);
  if (!open()) return nullptr;
  follow_generation();
  const std::optional<MemoryRange> range = find(RangeAllocator::rounded(whole_pages(bytes)));
  if (!range) return nullptr;
  allocations_.emplace(range->address, Allocation{*range, serial_});
  return heap::pointer(range->address);
}

bool ProgramMemory::release(void* memory) noexcept try {
  if (!holds(memory)) return false;
  const NoCancellation whole;
  const std::scoped_lock lock(mutex_);
  const auto found = allocations_.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == allocations_.end()) return false;
  const Allocation allocation = found->second;
  allocations_.erase(found);
  follow_generation();
  if (allocation.serial == serial_) {
    keep(allocation.range);
  } else {
    static_cast<void>(space_.decommit(allocation.range.address, allocation.range.bytes));
  }
  return true;
} catch (...) {
  return true;  // no memory for the record: its addresses are lost
}

void ProgramMemory::hold_at_forks(const void* memory) {
  if (!holds(memory)) return;
  const NoCancellation whole;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::scoped_lock lock(mutex_);
  for (auto& [begin, allocation] : allocations_) {
    if (address - begin < allocation.range.bytes) allocation.held_at_forks = true;
  }
}

std::uint64_t ProgramMemory::kept_bytes() {
  const std::scoped_lock lock(mutex_);
  return kept_bytes_;
}

void ProgramMemory::follow_generation() {
  const std::uint64_t serial = space_.serial();
  if (serial == serial_) return;
  for (const MemoryRange& range : kept_.take_all()) static_cast<void>(space_.decommit(range.address, range.bytes));
  static_cast<void>(clean_.take_all());
  kept_bytes_ = 0;
  serial_ = serial;
}

std::optional<MemoryRange> ProgramMemory::find(std::uint64_t bytes) {
  if (const std::optional<MemoryRange> range = kept_.allocate(bytes)) {
    kept_bytes_ -= range->bytes;
    return range;
  }
  if (const std::optional<MemoryRange> range = clean_.allocate(bytes)) return range;
  void* begin = space_.extend(bytes, heap::kPageBytes);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  if (begin == nullptr || !space_.commit(address, bytes, Backing::on_touch)) return std::nullopt;
  return MemoryRange{kPrivateRegion, address, bytes};
}

void ProgramMemory::keep(const MemoryRange& range) {
  kept_.add_chunk(kPrivateRegion, range.address, range.bytes);
  kept_bytes_ += range.bytes;
  if (kept_bytes_ > kMostKept) clean_kept();
}

void ProgramMemory::clean_kept() {
  for (const MemoryRange& range : kept_.take_all()) {
    static_cast<void>(space_.decommit(range.address, range.bytes));
    clean_.add_chunk(kPrivateRegion, range.address, range.bytes);
  }
  kept_bytes_ = 0;
}

const SharedHeap& ProgramMemory::as_heap() {
  static constexpr SharedHeap kHeap{
      kSharedHeapVersion,
      [] { return of_process().space_.serial(); },
      [](SharedHeapGeneration* filled) { return of_process().space_.generation(*filled); },
      [] { return SharedHeapCounts{}; },
      [] { return of_process().space_.why_not(); },
      [](std::uintptr_t begin, std::uint64_t bytes) { of_process().space_.hold_at_fork(begin, bytes); }};
  return kHeap;
}

void ProgramMemory::before_fork() {
  mutex_.lock();
  for (const auto& [begin, allocation] : allocations_) {
    if (allocation.held_at_forks) space_.hold_at_fork(begin, allocation.range.bytes);
  }
  space_.before_fork();
}

void ProgramMemory::after_fork_in_parent() {
  space_.after_fork_in_parent();
  mutex_.unlock();
}

void ProgramMemory::after_fork_in_child() {
  space_.after_fork_in_child();
  mutex_.unlock();
}

}  // namespace outrigger::client
