#include "service/loop/core_watch.hpp"

#include <algorithm>

namespace outrigger::service {

void CoreWatch::note(const RunTimes& times, Clock::time_point now) {
  const RunTimes before = last_;
  last_ = times;
  if (!known_) {
    known_ = true;
    return;
  }
  window_.ran += times.ran - before.ran;
  window_.waited += times.waited - before.waited;
  window_.lent += times.lent - before.lent;
  const auto wanted = window_.ran + window_.waited;
  const auto lost = std::max(window_.waited - window_.lent, std::chrono::nanoseconds{0});
  const bool much =
      lost >= kMuch && static_cast<double>(lost.count()) >= kMuchShare * static_cast<double>(wanted.count());
  if (!much && wanted < kWindow) return;
  lost_ += lost;
  window_ = {};
  if (taken_ || !much) return;
  taken_ = true;
  free_for_ = Clock::duration{0};
  const bool soon = freed_at_ != Clock::time_point::min() && now - freed_at_ < kSoon;
  rest_ = soon ? std::min<Clock::duration>(rest_ * 2, kLongestRest) : kShortestRest;
}

void CoreWatch::note_free_share(double share, Clock::duration since_last, Clock::time_point now) {
  if (!taken_) return;
  free_for_ = share >= kFreeShare ? free_for_ + since_last : Clock::duration{0};
  if (free_for_ < rest_) return;
  taken_ = false;
  freed_at_ = now;
}

}  // namespace outrigger::service
