// Reads kernel clocks that the standard library lacks, such as a thread's CPU time.
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
