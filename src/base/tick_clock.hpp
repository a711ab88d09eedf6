// CLOCK_MONOTONIC by the processor's counter, in half the time of a system call, for code that measures every short
// call. Each thread asks the system once a millisecond, and so calibrates the counter. If the kernel does not use that
// counter for its own clock, the system is always asked.
//
// Thread rule: any thread, each by itself. Errors stay below some hundred nanoseconds.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace outrigger {

class TickClock {
 public:
  // Never decreases within a thread.
  [[nodiscard]] static std::int64_t now_ns() {
#if defined(__x86_64__)
    const std::uint64_t passed = __rdtsc() - anchor_.ticks;
    if (passed < anchor_.good_for) [[likely]] {
      return anchor_.ns + static_cast<std::int64_t>((passed * anchor_.scale) >> kScaleBits);
    }
#endif
    return ask();
  }

 private:
  static constexpr unsigned kScaleBits = 32;

  // A reading of both clocks, and the counter's rate.
  struct Anchor {
    std::uint64_t ticks = 0;
    std::uint64_t good_for = 0;  // ticks; 0: ask the system
    std::uint64_t scale = 0;     // nanoseconds a tick, times 2^kScaleBits
    std::int64_t ns = 0;
  };

  [[nodiscard]] static std::int64_t ask();
  static void renew(std::uint64_t ticks, std::int64_t ns);

  [[gnu::tls_model("initial-exec")]] static constinit thread_local Anchor anchor_;
};

}  // namespace outrigger
