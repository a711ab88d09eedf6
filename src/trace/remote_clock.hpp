// Converts times of another machine's clock to this machine's, from occasional comparisons. The offset is interpolated
// between two comparisons, and constant before the first and after the last one.
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
  // Upper bound of the drift between two machines. A comparison that is less exact than the last one plus this drift is
  // ignored, so that slow ones on a busy machine do no harm.
  static constexpr std::int64_t kMostDriftPerSecondNs = 100'000;
  // When full, the oldest sample is dropped.
  static constexpr std::size_t kMostSamples = 1024;

  // The other clock's time, the offset to this one, and its largest error. Times must ascend.
  void compare(const ClockSample& sample);
  [[nodiscard]] bool compared() const { return !samples_.empty(); }
  // Needs a comparison.
  [[nodiscard]] std::int64_t here(std::int64_t there_ns) const;
  // Largest error of here() at the comparisons.
  [[nodiscard]] std::int64_t error_ns() const { return error_ns_; }

 private:
  std::deque<ClockSample> samples_;
  std::int64_t error_ns_ = 0;
};

}  // namespace outrigger::trace
