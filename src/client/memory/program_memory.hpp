// Memory that MPI_Alloc_mem gives to the program: shared memory that no other process maps until an operation uses it.
//
//     addresses of AddressSpace | used | kept | used | clean | not yet handed out ... |
//
// Pages are allocated at first touch. A freed range is *kept* with its pages for the next allocation. Above kMostKept
// bytes the pages of all kept ranges go back to the system; the addresses are *clean* then and stay mapped.
//
// fork(): parent and child each have private memory at the same addresses (heap/address_space.hpp). Ranges in use by
// other processes stay shared in the parent, and the child has a copy of them.
//
// One for the process. It outlives every client: a program may use and free its memory after MPI_Finalize. Thread rule:
// any thread; fork() holds the lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "client/memory/range_allocator.hpp"
#include "heap/address_space.hpp"
#include "protocol/shared/shared_heap.hpp"

namespace outrigger::client {

class ProgramMemory {
 public:
  static constexpr std::uint64_t kMostKept = 64ULL << 20;

  ProgramMemory(const ProgramMemory&) = delete;
  ProgramMemory& operator=(const ProgramMemory&) = delete;
  [[nodiscard]] static ProgramMemory& of_process();

  // Whole pages, not zeroed. nullptr on failure (space_.why_not(), or an impossible size).
  [[nodiscard]] void* allocate(std::uint64_t bytes);
  // False: not from allocate(); nothing was done.
  bool release(void* memory) noexcept;
  // True if it is in the address range of allocate(). Cheap.
  [[nodiscard]] bool holds(const void* memory) const {
    return opened_.load(std::memory_order_acquire) && space_.holds(memory);
  }
  // The allocation that holds `memory` stays shared in the parent at every fork() until it is released, because another
  // process writes there. The child gets a copy.
  void hold_at_forks(const void* memory);
  [[nodiscard]] std::uint64_t kept_bytes();

  // The interface by which the client follows this memory through forks.
  [[nodiscard]] static const SharedHeap& as_heap();

  // Around fork(), in this order. Call hold_at_fork() of as_heap() before.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

 private:
  struct Allocation {
    MemoryRange range;
    std::uint64_t serial = 0;  // of its generation
    bool held_at_forks = false;
  };

  ProgramMemory() = default;
  [[nodiscard]] bool open();
  // Freed memory of a generation that a fork has ended is private: gives it back to the system.
  void follow_generation();
  [[nodiscard]] std::optional<MemoryRange> find(std::uint64_t bytes);
  void keep(const MemoryRange& range);
  void clean_kept();

  heap::AddressSpace space_;
  std::atomic<bool> opened_{false};
  std::mutex mutex_;  // guards the members below
  bool tried_ = false;
  std::uint64_t serial_ = 0;  // of the generation of kept_ and clean_
  RangeAllocator kept_;
  RangeAllocator clean_;
  std::uint64_t kept_bytes_ = 0;
  std::unordered_map<std::uintptr_t, Allocation> allocations_;
};

}  // namespace outrigger::client
