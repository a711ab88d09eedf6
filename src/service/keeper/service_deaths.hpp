// How many service processes of a node have died of late, and what follows: others take their places as long as it may
// be chance. What kills too many would kill others, too: the next ones do only what is open, in the simplest way, and
// nothing more is offloaded. Where these die as well, the job has to end.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>

namespace outrigger::service {

class ServiceDeaths {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::seconds kCount{60};  // for so long
  static constexpr std::size_t kMost = 3;            // of these, the last one is followed by a careful one
  static constexpr std::size_t kMostCareful = 3;     // careful ones that are followed by another one

  // One has died. False: no other one may take its place.
  [[nodiscard]] bool note(Clock::time_point now) {
    while (!deaths_.empty() && now - deaths_.front() > kCount) deaths_.pop_front();
    deaths_.push_back(now);
    careful_ = careful_ || deaths_.size() >= kMost;
    return deaths_.size() < kMost + kMostCareful + 1;
  }
  // From now on, for good.
  [[nodiscard]] bool careful() const { return careful_; }
  [[nodiscard]] std::size_t of_late() const { return deaths_.size(); }

 private:
  std::deque<Clock::time_point> deaths_;
  bool careful_ = false;
};

}  // namespace outrigger::service
