// The clock of another machine: from its times to those of this one, by comparisons that are made now and then. Between
// two of them the difference changes evenly; before the first and after the last one it stays.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "trace/event.hpp"

namespace outrigger::trace {

class RemoteClock {
 public:
  // Clocks of machines do not drift apart faster: a comparison that says no more than the last one still does is left
  // out, so that one that took long, as on a busy machine, spoils nothing.
  static constexpr std::int64_t kMostDriftPerSecondNs = 100'000;
  // At the limit the oldest is forgotten.
  static constexpr std::size_t kMostSamples = 1024;

  // Its time, what to add to it for this machine's, and how wrong that is at most. Times must ascend.
  void compare(const ClockSample& sample);
  [[nodiscard]] bool compared() const { return !samples_.empty(); }
  // Only once it has been compared.
  [[nodiscard]] std::int64_t here(std::int64_t there_ns) const;
  // How wrong here() has been at most, where clocks had been compared.
  [[nodiscard]] std::int64_t error_ns() const { return error_ns_; }

 private:
  std::deque<ClockSample> samples_;
  std::int64_t error_ns_ = 0;
};

}  // namespace outrigger::trace
