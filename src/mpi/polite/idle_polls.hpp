// Decides what a waiting rank does between two polls that found nothing.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/long_yields.hpp"

namespace outrigger::mpi {

// The polls of one thread. A poll that begins long after the last one does not continue a wait: the program has
// computed in between, or the MPI has copied data.
class IdlePolls {
 public:
  using Nanoseconds = std::chrono::nanoseconds;
  enum class Pause : std::uint8_t { none, yield, sleep };

  static constexpr Nanoseconds kLongestGap{2000};
  // The same if the polls themselves are not seen, only what comes between them.
  static constexpr Nanoseconds kLongestRound{20'000};
  static constexpr std::uint32_t kSpins = 8;
  // Another rank on the core often continues at once; sleeps leave the core to computing processes, too.
  static constexpr std::uint32_t kYields = 16;

  constexpr IdlePolls() = default;

  // A poll from `began` to `ended` has found nothing.
  [[nodiscard]] constexpr Pause next(Nanoseconds began, Nanoseconds ended, Nanoseconds longest_gap = kLongestGap) {
    if (began - last_ > longest_gap) idle_ = 0;
    if (idle_ == 0) counted_ = began;
    last_ = ended;
    if (idle_ < kSpins + kYields) ++idle_;
    if (idle_ <= kSpins) return Pause::none;
    return idle_ < kSpins + kYields && !long_yields_.lately() ? Pause::yield : Pause::sleep;
  }
  // The pause has ended at `now`. Yields come before the next sleep: not all that polls find is seen here, such as the
  // messages of shared memory.
  constexpr void paused(Pause pause, Nanoseconds now) {
    if (pause == Pause::yield) long_yields_.yielded(now - last_);
    if (pause == Pause::sleep) {
      idle_ = long_yields_.lately() ? 0 : kSpins;
      long_yields_.slept();
    }
    last_ = now;
  }
  // Time of this wait until the end of the last pause, without what an earlier call has returned.
  [[nodiscard]] constexpr Nanoseconds take_waited() {
    const Nanoseconds waited = last_ - counted_;
    counted_ = last_;
    return waited;
  }
  // A poll has found something.
  constexpr void found() { idle_ = 0; }

 private:
  Nanoseconds last_{0};
  Nanoseconds counted_{0};
  std::uint32_t idle_ = 0;
  LongYields long_yields_;
};

}  // namespace outrigger::mpi
