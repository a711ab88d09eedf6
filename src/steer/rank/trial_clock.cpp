#include "steer/rank/trial_clock.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/stack.hpp"

namespace outrigger::steer {

namespace detail {
constinit std::atomic<std::uint32_t> trials_under_way = 0;
}

namespace {

// One for each thread.
struct Inside {
  const InsideMpi* call = nullptr;  // the outermost; may have been left by longjmp()
  std::int64_t entered_ns = 0;      // its processor time then
  std::int64_t total_ns = 0;        // of calls that are over
};
thread_local constinit Inside this_thread;

std::int64_t processor_ns() {
  return time_on(CLOCK_THREAD_CPUTIME_ID).count();
}

}  // namespace

InsideMpi::InsideMpi() {
  if (is_above(this_thread.call, this)) return;
  this_thread.call = this;
  this_thread.entered_ns = processor_ns();
}

InsideMpi::~InsideMpi() {
  if (this_thread.call != this) return;
  this_thread.call = nullptr;
  this_thread.total_ns += processor_ns() - this_thread.entered_ns;
}

TrialClock::Reading TrialClock::read() {
  const bool is_inside = is_above(this_thread.call, __builtin_frame_address(0));
  const std::int64_t outside_until_ns = is_inside ? this_thread.entered_ns : processor_ns();
  return {time_on(CLOCK_MONOTONIC).count(), outside_until_ns - this_thread.total_ns, &this_thread};
}

void TrialClock::begin(std::uint32_t window) {
  if (window == 0) {
    if (!running_) detail::trials_under_way.fetch_add(1, std::memory_order_relaxed);
    running_ = true;
    spoiled_.store(false, std::memory_order_relaxed);
    times_ = TrialTimes{};
  } else {
    close_window();
  }
  window_ = window;
  since_ = read();
}

void TrialClock::close_window() {
  const Reading now = read();
  if (!running_ || now.thread != since_.thread) {
    spoil();
    return;
  }
  const std::int64_t passed = std::max<std::int64_t>(0, now.now_ns - since_.now_ns);
  const std::int64_t lost = std::clamp<std::int64_t>(passed - (now.computed_ns - since_.computed_ns), 0, passed);
  times_.lost_ns[window_ % kTrialWindows] = static_cast<std::uint64_t>(lost);
  times_.passed_ns += static_cast<std::uint64_t>(passed);
}

TrialTimes TrialClock::end() {
  close_window();
  stop();
  if (spoiled_.load(std::memory_order_relaxed)) times_.passed_ns = 0;
  return times_;
}

void TrialClock::stop() {
  if (!running_) return;
  running_ = false;
  detail::trials_under_way.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace outrigger::steer
