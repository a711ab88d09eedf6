// Counts a rank's native calls, for service processes.
//
// MPI makes the counts of such a call equal on all ranks, so all ranks decide alike. If a program breaks that rule,
// some ranks are in their MPI while the others' operation waits for ever. The service process of a long-waiting
// operation finds such ranks here: they have made more native calls since the previous operation than the ranks that
// posted.
//
// Plain data in a rank's control segment. The rank writes it, its service process reads it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "protocol/ids.hpp"

namespace outrigger {

// In place of a number: the calls are not counted. No rank has more.
inline constexpr std::uint32_t kUncountedNativeCalls = ~std::uint32_t{0};

// Number of a communicator's posted operations, modulo 2^24, and of native calls since the last of them, in one word.
class NativeCalls {
 public:
  constexpr explicit NativeCalls(std::uint64_t word) : word_(word) {}
  [[nodiscard]] static constexpr NativeCalls after(std::uint64_t operations) {
    return NativeCalls(operations << kCallBits);
  }

  [[nodiscard]] constexpr std::uint64_t word() const { return word_; }
  [[nodiscard]] constexpr NativeCalls one_more() const { return NativeCalls(word_ + 1); }
  // Native calls since the last operation; at most kUncountedNativeCalls.
  [[nodiscard]] constexpr std::uint32_t count() const {
    const std::uint64_t calls = word_ & ((std::uint64_t{1} << kCallBits) - 1);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(calls, kUncountedNativeCalls));
  }
  // True if the rank left the operation to its MPI: it made more native calls before it than the ranks that posted.
  [[nodiscard]] constexpr bool has_passed(std::uint64_t sequence, std::uint32_t calls_of_others) const {
    return word_ >> kCallBits == after(sequence).word_ >> kCallBits && count() > calls_of_others;
  }

 private:
  static constexpr unsigned kCallBits = 40;

  std::uint64_t word_;
};

// Communicators of a rank with counted calls. Operations of further ones hang if the program breaks the rule.
inline constexpr std::uint32_t kNativeCallsEntries = 1024;

struct alignas(32) NativeCallsEntry {
  std::atomic<std::uint64_t> group_high;  // 0 and 0: free
  std::atomic<std::uint64_t> group_low;
  std::atomic<std::uint64_t> word;  // NativeCalls

  // Called by the rank before its first call. Ids are never reused, so a reader that finds the same id twice has read a
  // consistent word.
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
  // Called by any process. False also if the entry is another group's.
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
