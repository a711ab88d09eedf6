#include "trace/remote_clock.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace outrigger::trace {

void RemoteClock::compare(const ClockSample& sample) {
  constexpr double kDrift = static_cast<double>(kMostDriftPerSecondNs) / 1e9;
  if (!samples_.empty()) {
    const ClockSample& last = samples_.back();
    if (sample.at_ns <= last.at_ns) return;
    const auto drifted = static_cast<std::int64_t>(kDrift * static_cast<double>(sample.at_ns - last.at_ns));
    error_ns_ = std::max(error_ns_, std::min(sample.error_ns, last.error_ns + drifted));
    if (sample.error_ns > last.error_ns + drifted) return;
  }
  error_ns_ = std::max(error_ns_, sample.error_ns);
  samples_.push_back(sample);
  if (samples_.size() > kMostSamples) samples_.pop_front();
}

std::int64_t RemoteClock::here(std::int64_t there_ns) const {
  assert(compared());
  const auto after = std::ranges::upper_bound(samples_, there_ns, {}, &ClockSample::at_ns);
  if (after == samples_.begin()) return there_ns + after->offset_ns;
  const ClockSample& before = *std::prev(after);
  if (after == samples_.end()) return there_ns + before.offset_ns;
  const double share = static_cast<double>(there_ns - before.at_ns) / static_cast<double>(after->at_ns - before.at_ns);
  const auto change = static_cast<double>(after->offset_ns - before.offset_ns);
  return there_ns + before.offset_ns + std::llround(share * change);
}

}  // namespace outrigger::trace
