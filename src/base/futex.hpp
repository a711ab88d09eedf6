// Sleeps on, and wakes sleepers on, a 32-bit word in memory shared between processes.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

// Never the private form: the other side is another process.
namespace outrigger {

// Sleeps while the word is `expected`, at most `at_most`. May wake early, so callers check again.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds at_most) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  timespec timeout{};
  timeout.tv_sec = seconds.count();
  timeout.tv_nsec = (at_most - seconds).count();
  (void)::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

// Sleeps while the word is `expected`. May wake early.
inline void futex_wait_forever(std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  (void)::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, expected, nullptr, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
  (void)::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace outrigger
