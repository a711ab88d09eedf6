// The addresses of the shared heap and the memory behind them.
//
//   reserved once        | old generations | current generation: a memfd, mapped where needed | not yet used |
//                        |  private after  |  MAP_SHARED, not inherited by children           |
//                        |     fork()      |                                                   |
//                      begin             start                                                top           end
//
// An allocator takes addresses from the top and requests memory behind them by commit(). Memory comes in chunks of 2
// MiB. They are huge pages if the kernel gives them, as ordinary pages of shared memory cost several times as much as
// anonymous ones. MADV_COLLAPSE requests them, which works even if shared memory has no automatic huge pages.
//
// fork(): before the copy, the current generation's memory is mapped again, privately, at the same addresses. So parent
// and child have the same bytes, with copy-on-write. The memfd is not written to any more, except for ranges that
// service processes work on (hold_at_fork): these stay shared in the parent, and the child gets a copy made before. A
// child made without the C library (clone() by number) has no memory there: it crashes instead of changing its parent's
// data.
//
// No function here makes a large allocation. Thread rule: any thread; fork() holds the lock.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/shared_memory.hpp"
#include "heap/ranges.hpp"
#include "protocol/shared/shared_heap.hpp"

namespace outrigger::heap {

[[nodiscard]] inline void* pointer(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

// A memfd and its mapping: address `start` is its first byte.
struct MemoryFile {
  int fd = -1;
  std::uintptr_t start = 0;
  dev_t device = 0;
  ino_t inode = 0;

  // Programs close unknown descriptors, and the number may have been reused.
  [[nodiscard]] bool is_there() const;
  [[nodiscard]] off_t offset_of(std::uintptr_t address) const { return static_cast<off_t>(address - start); }
};

class AddressSpace {
 public:
  constexpr AddressSpace() = default;
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // Reserves the addresses and makes the first generation. To be called once. False: see why_not().
  [[nodiscard]] bool open();

  [[nodiscard]] bool holds(const void* address) const {
    return reinterpret_cast<std::uintptr_t>(address) - begin_ < bytes_;
  }
  // No further commits: in a child, after too many forks, or after a failure.
  [[nodiscard]] bool closed() const { return closed_.load(std::memory_order_relaxed); }
  [[nodiscard]] const char* why_not() const { return why_not_; }

  // Addresses without memory, or nullptr.
  [[nodiscard]] void* extend(std::uint64_t bytes, std::uint64_t alignment);
  // Zeroed memory behind whole pages, in huge pages if it is `reserved`. False: no memory.
  [[nodiscard]] bool commit(std::uintptr_t begin, std::uint64_t bytes, Backing backing);
  // Returns the memory; the next commit finds zeros. False: nothing was done.
  [[nodiscard]] bool decommit(std::uintptr_t begin, std::uint64_t bytes);

  [[nodiscard]] std::uint64_t serial() const { return serial_.load(std::memory_order_acquire); }
  [[nodiscard]] bool generation(SharedHeapGeneration& filled);
  [[nodiscard]] std::uint64_t forks() const { return forks_.load(std::memory_order_relaxed); }

  // To be called around fork(), in this order.
  void hold_at_fork(std::uintptr_t begin, std::uint64_t bytes);
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

 private:
  // A range that stays shared during a fork, its memfd and, during fork(), the child's copy.
  struct Held {
    Range range;
    MemoryFile backing;  // with its own descriptor; -1 if it was lost
    bool again = false;
    void* copy = nullptr;
  };

  [[nodiscard]] bool begin_generation(std::uintptr_t start);
  void close(const char* reason);
  [[nodiscard]] Range current() const { return {backing_.start, top_}; }
  [[nodiscard]] bool map_run(std::size_t first, std::size_t last);
  void back_run(std::size_t first, std::size_t last);

  void hold_everything();
  void make_private(const Range& range, const MemoryFile& backing);
  void keep_or_end_former();
  void end_generation();
  void keep(const Range& range);
  void copy_former();

  std::uintptr_t begin_ = 0;
  std::uint64_t bytes_ = 0;
  pid_t owner_ = 0;
  const char* why_not_ = "it is not switched on";
  std::atomic<bool> closed_{true};
  std::atomic<std::uint64_t> serial_{0};
  std::atomic<std::uint64_t> forks_{0};
  std::atomic<bool> collapses_{true};

  std::mutex mutex_;    // guards the following members
  MemoryFile backing_;  // of the current generation
  std::uintptr_t top_ = 0;
  ChunkTable chunks_;
  RangeSet asked_;                                  // requested for the next fork
  std::array<Held, 2 * RangeSet::kMost> former_{};  // of earlier generations, still shared
  std::size_t former_count_ = 0;
  bool generation_open_ = false;   // there is a current generation
  bool generation_ended_ = false;  // by the current fork
};

}  // namespace outrigger::heap
