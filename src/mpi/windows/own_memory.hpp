// May pages be guarded? By the process's lists in /proc.
//
// Thread rule: any thread. Does not use the program's allocator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace outrigger::mpi {

// Whole pages.
struct GuardedPages {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool may_be_read = false;  // only writes use them: sent data
};
inline constexpr std::size_t kMostGuardedRanges = 32;

// True if all pages are anonymous memory of this process alone, readable and writable. The kernel writes signal frames
// to stacks. So this thread must be on the main thread's own stack: others may be anywhere. False near the limit of
// mappings, too.
[[nodiscard]] bool is_own_memory(std::span<const GuardedPages> pages);

// Threads of the process.
class Threads {
 public:
  static constexpr std::size_t kMost = 64;
  // All that there are now; false: too many, or unknown.
  [[nodiscard]] bool read();
  [[nodiscard]] bool has(std::int32_t thread) const;
  [[nodiscard]] std::span<const std::int32_t> all() const { return {ids_.data(), count_}; }
  void remove(const Threads& others);
  // False: one of them blocks one of these signals (a mask as the kernel has it). Threads that have ended block none.
  [[nodiscard]] bool leave_unblocked(std::uint64_t signals) const;

 private:
  std::array<std::int32_t, kMost> ids_{};
  std::size_t count_ = 0;
};

}  // namespace outrigger::mpi
