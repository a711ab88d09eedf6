#include "sim/model/processor.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace outrigger::sim::model {
namespace {

constexpr double kRounding_ns = 0.5;  // times are whole nanoseconds

}  // namespace

double Processor::part() const {
  const auto wanting = static_cast<double>(works_.size() + spinning_);
  return wanting <= cores_ ? 1.0 : cores_ / wanting;
}

void Processor::advance() {
  const std::uint64_t now_ns = time_.now_ns();
  given_ += static_cast<double>(now_ns - given_at_ns_) * part();
  given_at_ns_ = now_ns;
}

void Processor::run(std::uint64_t work_ns, std::function<void()> done) {
  if (cores_ == 0) return time_.after(work_ns, std::move(done));
  advance();
  const auto later = [](const Work& a, const Work& b) { return a.end != b.end ? a.end > b.end : a.order > b.order; };
  works_.push_back(Work{given_ + static_cast<double>(work_ns), next_order_++, std::move(done)});
  std::push_heap(works_.begin(), works_.end(), later);
  look_later();
}

// When the first work ends, unless something changes before.
void Processor::look_later() {
  const std::uint64_t look = ++looks_;
  if (works_.empty()) return;
  const double left = std::max(0.0, works_.front().end - given_);
  time_.after(static_cast<std::uint64_t>(std::llround(left / part())), [this, look] {
    if (look != looks_) return;
    advance();
    const auto later = [](const Work& a, const Work& b) { return a.end != b.end ? a.end > b.end : a.order > b.order; };
    std::vector<std::function<void()>> ended;
    while (!works_.empty() && works_.front().end <= given_ + kRounding_ns) {
      std::pop_heap(works_.begin(), works_.end(), later);
      ended.push_back(std::move(works_.back().done));
      works_.pop_back();
    }
    look_later();
    for (const std::function<void()>& done : ended) done();
  });
}

std::uint64_t Processor::switch_to(const void* process) {
  if (cores_ == 0) return 0;
  const bool other = std::exchange(last_, process) != process;
  const bool one_is_free = works_.size() + polling_ < cores_;
  if (!other || one_is_free) return 0;
  const double turns = (static_cast<double>(polling_) / cores_ + 1) / 2;
  return static_cast<std::uint64_t>(static_cast<double>(switch_ns_) * std::max(1.0, turns));
}

void Processor::poll(bool more) {
  assert(more || polling_ != 0);
  polling_ = more ? polling_ + 1 : polling_ - 1;
}

void Processor::spin(bool more) {
  if (cores_ == 0) return;
  advance();
  assert(more || spinning_ != 0);
  spinning_ = more ? spinning_ + 1 : spinning_ - 1;
  look_later();
}

void CpuBurst::begin() {
  assert(steps_.empty());
  spent_ns_ = had_ns_ = 0;
}

void CpuBurst::then(std::function<void()> step) {
  steps_.push_back(Step{spent_ns_, std::move(step)});
  if (steps_.size() == 1) run_first();
}

void CpuBurst::run_first() {
  processor_.run(steps_.front().at_ns - had_ns_, [this] { take_steps(); });
}

// The last step may begin the next burst, so nothing of this one is looked at after it.
void CpuBurst::take_steps() {
  had_ns_ = steps_.front().at_ns;
  while (true) {
    const std::function<void()> action = std::move(steps_.front().action);
    const bool last = steps_.size() == 1;
    const bool together = !last && steps_[1].at_ns == had_ns_;
    if (last) steps_.clear();
    if (!last) steps_.pop_front();
    if (!last && !together) run_first();
    action();
    if (!together) return;
  }
}

}  // namespace outrigger::sim::model
