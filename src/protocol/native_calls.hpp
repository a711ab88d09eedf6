// Calls that a rank has left to its MPI for their counts, as service processes see them.
//
// MPI makes the counts of such a call equal on all ranks, so all ranks decide alike. A program that breaks the rule has
// some ranks in their MPI while an operation of the others waits for them for ever. A service process whose operation
// has waited long finds them here: they have left more calls to their MPI since the operation before than the ranks
// that have posted.
//
// Plain data in a rank's control segment. The rank writes it, its service process reads it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "protocol/ids.hpp"

namespace outrigger {

// In place of a number of calls: they are not counted. No rank has more.
inline constexpr std::uint32_t kUncountedNativeCalls = ~std::uint32_t{0};

// A communicator's operations that have been posted, modulo 2^24, and native calls since the last of them, in one word.
class NativeCalls {
 public:
  constexpr explicit NativeCalls(std::uint64_t word) : word_(word) {}
  [[nodiscard]] static constexpr NativeCalls after(std::uint64_t operations) {
    return NativeCalls(operations << kCallBits);
  }

  [[nodiscard]] constexpr std::uint64_t word() const { return word_; }
  [[nodiscard]] constexpr NativeCalls one_more() const { return NativeCalls(word_ + 1); }
  // Since the last operation; at the limit kUncountedNativeCalls.
  [[nodiscard]] constexpr std::uint32_t count() const {
    const std::uint64_t calls = word_ & ((std::uint64_t{1} << kCallBits) - 1);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(calls, kUncountedNativeCalls));
  }
  // The rank has left the operation to its MPI. Others had left so many calls to theirs when they posted it.
  [[nodiscard]] constexpr bool has_passed(std::uint64_t sequence, std::uint32_t calls_of_others) const {
    return word_ >> kCallBits == after(sequence).word_ >> kCallBits && count() > calls_of_others;
  }

 private:
  static constexpr unsigned kCallBits = 40;

  std::uint64_t word_;
};

// Communicators of one rank that are counted at a time. Further ones are not: the program that breaks the rule hangs.
inline constexpr std::uint32_t kNativeCallsEntries = 1024;

struct alignas(32) NativeCallsEntry {
  std::atomic<std::uint64_t> group_high;  // and 0, 0: free
  std::atomic<std::uint64_t> group_low;
  std::atomic<std::uint64_t> word;  // NativeCalls

  // The rank, before its first call. Ids are never used again, so a reader that finds the same one twice has read what
  // is its group's.
  void begin(const GroupId& group, NativeCalls calls) {
    end();
    word.store(calls.word(), std::memory_order_relaxed);
    group_low.store(group.low, std::memory_order_release);
    group_high.store(group.high, std::memory_order_release);
  }
  void end() {
    group_high.store(0, std::memory_order_relaxed);
    group_low.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  // Any process. False: of another group.
  [[nodiscard]] bool has_passed(const OperationId& operation, std::uint32_t calls_of_others) const {
    if (!is_of(operation.group)) return false;
    const NativeCalls calls(word.load(std::memory_order_acquire));
    return is_of(operation.group) && calls.has_passed(operation.sequence, calls_of_others);
  }

 private:
  [[nodiscard]] bool is_of(const GroupId& group) const {
    return group_high.load(std::memory_order_acquire) == group.high &&
           group_low.load(std::memory_order_acquire) == group.low;
  }
};
static_assert(sizeof(NativeCallsEntry) == 32);

}  // namespace outrigger
