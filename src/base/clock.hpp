// The time on one of the kernel's clocks, as that of a thread's own CPU time, which the standard library does not have.
#pragma once

#include <chrono>
#include <ctime>

namespace outrigger {

inline std::chrono::nanoseconds time_on(clockid_t clock) {
  timespec time{};
  (void)::clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace outrigger
