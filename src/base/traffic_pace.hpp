// How often a waiting rank lets its MPI look for the program's messages, and how long it sleeps in between. A large
// message takes several steps of both ranks, so a rank that sleeps after each look costs the sender a sleep for each.
//
//   looks (until kLooks in a row have found nothing) -> sleep -> looks -> sleep -> ...
//
// Sleeps after a find are short, and become twice as long each time. MPIs do not say what a look has found, but a look
// that finds something takes longer.
//
// Thread rule: one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace outrigger {

class TrafficPace {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  // The next step of a rank that has a core comes within some microseconds.
  static constexpr std::uint32_t kLooks = 16;
  // Looks without a find end after this time, too: over TCP each is a system call.
  static constexpr Nanoseconds kLongestSearch{20'000};
  // Then a sleep follows in any case: a rank that only yields may keep others off its core for seconds (Linux 6.18).
  static constexpr std::uint32_t kMostLooks = 256;
  static constexpr Nanoseconds kShortestSleep{100'000};
  static constexpr Nanoseconds kLongestSleep = std::chrono::hours(1);  // callers have a limit of their own
  // A find takes so much longer than four times the shortest look.
  static constexpr Nanoseconds kFind{1'000};
  // After a sleep, when caches are cold.
  static constexpr Nanoseconds kFindWhenCold{5'000};

  // `first_sleep`: the longest before the first find.
  constexpr explicit TrafficPace(Nanoseconds first_sleep = kLongestSleep) : sleep_(first_sleep) {}

  constexpr void looked(Nanoseconds took) {
    shortest_ = std::min(took, shortest_ + shortest_ / 64 + Nanoseconds(1));
    const bool found = took > 4 * shortest_ + (looks_ == 0 ? kFindWhenCold : kFind);
    ++looks_;
    fruitless_ = found ? 0 : fruitless_ + 1;
    searched_ = found ? Nanoseconds(0) : searched_ + took;
    if (found) sleep_ = kShortestSleep;
  }
  // Before a sleep. If others want the core, one look for nothing is enough.
  [[nodiscard]] constexpr bool looks_on(bool core_is_wanted = false) const {
    return fruitless_ < (core_is_wanted ? 1 : kLooks) && searched_ < kLongestSearch && looks_ < kMostLooks;
  }
  [[nodiscard]] constexpr Nanoseconds sleep(Nanoseconds at_most) const { return std::min(sleep_, at_most); }
  constexpr void slept() {
    sleep_ = std::min(2 * sleep_, kLongestSleep);
    looks_ = fruitless_ = 0;
    searched_ = Nanoseconds(0);
  }

 private:
  Nanoseconds shortest_ = std::chrono::seconds(1);  // rises slowly, as looks may become slower for good
  Nanoseconds searched_{0};
  Nanoseconds sleep_;
  std::uint32_t looks_ = 0;  // since the last sleep
  std::uint32_t fruitless_ = 0;
};

}  // namespace outrigger
