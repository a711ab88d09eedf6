// Time for which a service process that shares its core leaves the network alone during large transfers.
//
// Every poll of the network costs time, and a wake-up per segment costs most: over TCP at 1 Gbit/s more than the copies
// do. The network's buffers hold what comes meanwhile. The pause is the time that the next 64 KiB take at the recent
// rate, but small against the time for the remaining bytes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace outrigger::fabric::ucx {

class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::uint64_t kPortionBytes = 64U << 10;
  static constexpr std::chrono::microseconds kLongest{500};
  static constexpr std::chrono::microseconds kShortest{50};  // a shorter timer costs more than it saves

  // `moved_bytes`: over the wire so far; `under_way_bytes`: known to be in flight. Zero: poll at each event.
  [[nodiscard]] std::chrono::microseconds pause(Clock::time_point now, std::uint64_t moved_bytes,
                                                std::uint64_t under_way_bytes) {
    const std::uint64_t came_bytes = moved_bytes - seen_bytes_;
    const auto since_us = static_cast<std::uint64_t>(
        std::max<std::int64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now - seen_).count(), 1));
    seen_bytes_ = moved_bytes;
    seen_ = now;
    if (under_way_bytes < 2 * kPortionBytes) return std::chrono::microseconds{0};
    if (came_bytes == 0) return kLongest;
    const std::chrono::microseconds portion{kPortionBytes * since_us / came_bytes};
    return portion < kShortest ? std::chrono::microseconds{0} : std::min(portion, kLongest);
  }

 private:
  std::uint64_t seen_bytes_ = 0;
  Clock::time_point seen_;
};

}  // namespace outrigger::fabric::ucx
