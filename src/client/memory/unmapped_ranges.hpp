// Memory that the program's threads give back to the system. Noted inside munmap, mremap, brk and the like, where
// nothing may allocate or lock, and collected by code that is about to use addresses.
//
// Thread rule: note() from any thread and inside malloc and free; drain() by one thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace outrigger::client {

class UnmappedRanges {
 public:
  // Ranges between two drains. At the limit all memory counts as given back.
  static constexpr std::uint32_t kMost = 4096;

  void note(std::uint64_t begin, std::uint64_t end) noexcept {
    const std::uint32_t place = noted_.fetch_add(1, std::memory_order_acq_rel);
    if (place - drained_.load(std::memory_order_acquire) >= kMost) {
      lost_.store(true, std::memory_order_release);
      return;
    }
    Range& range = ranges_[place % kMost];
    range.begin.store(begin, std::memory_order_relaxed);
    range.end.store(end, std::memory_order_relaxed);
    range.number.store(place + 1, std::memory_order_release);
  }

  // Calls `gone(begin, end)` for each; `gone(0, highest)` if there were too many.
  template <class Gone>
  void drain(const Gone& gone) {
    if (lost_.exchange(false, std::memory_order_acq_rel)) {
      // Read after the exchange: a thread that has reported a lost range has an earlier place, which stays empty.
      drained_.store(noted_.load(std::memory_order_acquire), std::memory_order_release);
      return gone(std::uint64_t{0}, ~std::uint64_t{0});
    }
    const std::uint32_t end = noted_.load(std::memory_order_acquire);
    std::uint32_t place = drained_.load(std::memory_order_relaxed);
    for (; place != end; ++place) {
      Range& range = ranges_[place % kMost];
      // Another thread is writing it; its memory is not gone yet either.
      if (range.number.load(std::memory_order_acquire) != place + 1) break;
      gone(range.begin.load(std::memory_order_relaxed), range.end.load(std::memory_order_relaxed));
    }
    drained_.store(place, std::memory_order_release);
  }
  [[nodiscard]] bool empty() const {
    return noted_.load(std::memory_order_acquire) == drained_.load(std::memory_order_relaxed);
  }

 private:
  struct Range {
    std::atomic<std::uint32_t> number{0};
    std::atomic<std::uint64_t> begin{0};
    std::atomic<std::uint64_t> end{0};
  };
  std::array<Range, kMost> ranges_{};
  std::atomic<std::uint32_t> noted_{0};
  std::atomic<std::uint32_t> drained_{0};
  std::atomic<bool> lost_{false};
};

}  // namespace outrigger::client
