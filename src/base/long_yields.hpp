// Yields that take long. Such a yield has left the core to a computing process, maybe for its whole turn. After a sleep
// a thread gets the core much sooner, so the next waits sleep without yields before.
#pragma once

#include <chrono>
#include <cstdint>

namespace outrigger {

// The waits of one thread.
class LongYields {
 public:
  static constexpr std::chrono::nanoseconds kLong{1'000'000};
  // Sleeps before the next yield.
  static constexpr std::uint32_t kSleepsAlone = 64;

  constexpr LongYields() = default;

  constexpr void yielded(std::chrono::nanoseconds took, std::chrono::nanoseconds at_most = kLong) {
    if (took > at_most) sleeps_left_ = kSleepsAlone;
  }
  constexpr void slept() {
    if (sleeps_left_ != 0) --sleeps_left_;
  }
  // True: sleep instead.
  [[nodiscard]] constexpr bool lately() const { return sleeps_left_ != 0; }

 private:
  std::uint32_t sleeps_left_ = 0;
};

}  // namespace outrigger
