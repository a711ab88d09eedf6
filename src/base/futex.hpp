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

// Sleeps while the 32-bit word at `word` is `expected`, `at_most` so long. Also returns early for no reason: the caller
// looks again.
inline void futex_wait_at(void* word, std::uint32_t expected, std::chrono::nanoseconds at_most) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  timespec timeout{};
  timeout.tv_sec = seconds.count();
  timeout.tv_nsec = (at_most - seconds).count();
  (void)::syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds at_most) {
  futex_wait_at(&word, expected, at_most);
}

// Sleeps while the word is `expected`. May wake early.
inline void futex_wait_forever(std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  (void)::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, expected, nullptr, nullptr, 0);
}

inline void futex_wake_all_at(void* word) {
  (void)::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}
inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
  futex_wake_all_at(&word);
}

}  // namespace outrigger
