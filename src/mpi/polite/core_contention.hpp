// Decides if waits are polite where each rank has a core of its own, as long as others do not use it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace outrigger::mpi {

// Looks at the kernel's figures of one thread. Others use the core if the thread is runnable and does not run. Polite
// waits hide that, as the thread then sleeps: from time to time the MPI waits natively again, for a trial.
class CoreContention {
 public:
  using Nanoseconds = std::chrono::nanoseconds;
  struct Look {
    Nanoseconds now{0};
    Nanoseconds without_core{0};  // runnable and not running, since the thread's start
  };

  static constexpr std::chrono::milliseconds kBetweenLooks{200};
  // Part of the time without the core from which on others use it: one in eight.
  static constexpr int kLeastPart = 8;
  // A short disturbance is not worth a change.
  static constexpr std::uint32_t kBusyLooks = 2;
  // Looks between trials. They double while trials find the core in use.
  static constexpr std::uint32_t kFirstTerm = 50;
  static constexpr std::uint32_t kLongestTerm = 3200;

  constexpr CoreContention() = default;

  // To be called about every kBetweenLooks. True: waits are to be polite from now on.
  [[nodiscard]] constexpr bool next(const Look& look) {
    const bool known = last_.now.count() != 0;
    const bool busy = known && (look.without_core - last_.without_core) * kLeastPart > look.now - last_.now;
    last_ = look;
    polite_ ? count_polite() : count_native(busy);
    return polite_;
  }

 private:
  constexpr void count_polite() {
    if (++looks_ < term_) return;
    polite_ = false;
    trial_ = true;
    looks_ = 0;
    busy_looks_ = 0;
  }
  constexpr void count_native(bool busy) {
    busy_looks_ = busy ? busy_looks_ + 1 : 0;
    if (busy_looks_ >= (trial_ ? 1 : kBusyLooks)) {
      term_ = trial_ ? std::min(2 * term_, kLongestTerm) : kFirstTerm;
      polite_ = true;
      looks_ = 0;
    } else if (trial_ && !busy && ++looks_ >= kBusyLooks) {
      trial_ = false;
    }
  }

  Look last_;
  std::uint32_t busy_looks_ = 0;
  std::uint32_t looks_ = 0;
  std::uint32_t term_ = kFirstTerm;
  bool polite_ = false;
  bool trial_ = false;
};

}  // namespace outrigger::mpi
