// Waking whoever sleeps on a 32-bit word in memory shared between processes.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace outrigger::fabric {

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
  // Not the private form: the sleeper is another process.
  (void)::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace outrigger::fabric
