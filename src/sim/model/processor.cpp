#include "sim/model/processor.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

namespace outrigger::sim::model {
namespace {

constexpr double kRounding_ns = 0.5;  // times are whole nanoseconds
// Until a kernel moves a process away from others to a core that has fewer: Linux looks every so many milliseconds as
// there are cores, from two on.
constexpr std::uint64_t kBalance_ns = 2'000'000;

}  // namespace

bool Processor::ends_later(const Work& one, const Work& other) {
  return one.end != other.end ? one.end > other.end : one.order > other.order;
}

Processor::Process& Processor::known(ProcessId process) {
  const auto [found, is_new] = processes_.try_emplace(process);
  if (is_new) {
    const auto fewest = std::ranges::min_element(cores_, {}, &Core::processes);
    found->second.home = static_cast<std::size_t>(fewest - cores_.begin());
    ++fewest->processes;
  }
  return found->second;
}

Processor::Core& Processor::core_for(ProcessId process) {
  Core& home = home_of(process);
  if (home.wanting() == 0) return home;
  const auto empty = std::ranges::find_if(cores_, &Core::has_nobody);
  if (empty == cores_.end()) return home;
  move_home(process, static_cast<std::size_t>(empty - cores_.begin()));
  return *empty;
}

// With its waiting: a rank may have work to do, as a copy for its service process, while it waits.
void Processor::move_home(ProcessId process, std::size_t core) {
  Process& moving = known(process);
  Core& from = cores_[moving.home];
  Core& to = cores_[core];
  --from.processes;
  ++to.processes;
  from.spinning -= moving.only_spinning();
  to.spinning += moving.only_spinning();
  from.polling -= moving.polling;
  to.polling += moving.polling;
  moving.home = core;
}

void Processor::advance() {
  const auto passed_ns = static_cast<double>(time_.now_ns() - given_at_ns_);
  for (Core& core : cores_) core.given += passed_ns * core.part();
  given_at_ns_ = time_.now_ns();
}

void Processor::add(Core& core, Work work) {
  work.begin += core.given;
  work.end += core.given;
  core.works.push_back(std::move(work));
  std::push_heap(core.works.begin(), core.works.end(), ends_later);
}

void Processor::run(ProcessId process, std::uint64_t work_ns, std::function<void()> done) {
  if (cores_.empty()) return time_.after(work_ns, std::move(done));
  advance();
  Process& worker = known(process);
  cores_[worker.home].spinning -= worker.only_spinning();
  Core& core = core_for(process);
  ++worker.works;
  add(core, Work{process, 0, static_cast<double>(work_ns), next_order_++, std::move(done)});
  ++works_;
  look_later();
  deal_later();
}

// When the first work ends, unless something changes before.
void Processor::look_later() {
  const std::uint64_t look = ++looks_;
  if (works_ == 0) return;
  double soonest_ns = std::numeric_limits<double>::max();
  for (const Core& core : cores_) {
    if (core.works.empty()) continue;
    soonest_ns = std::min(soonest_ns, std::max(0.0, core.works.front().end - core.given) / core.part());
  }
  time_.after(static_cast<std::uint64_t>(std::llround(soonest_ns)), [this, look] {
    if (look == looks_) end_what_is_done();
  });
}

void Processor::end_what_is_done() {
  advance();
  std::vector<Work> ended;
  for (Core& core : cores_) {
    while (!core.works.empty() && core.works.front().end <= core.given + kRounding_ns) {
      std::pop_heap(core.works.begin(), core.works.end(), ends_later);
      ended.push_back(std::move(core.works.back()));
      core.works.pop_back();
      Process& worker = known(ended.back().process);
      --worker.works;
      core.spinning += worker.only_spinning();
    }
  }
  works_ -= ended.size();
  std::ranges::sort(ended, {}, &Work::order);
  look_later();
  for (const Work& work : ended) work.done();
}

// ---------------------------------------------------------------- more than one core

bool Processor::uneven() const {
  const auto [least, most] = std::ranges::minmax(cores_, {}, &Core::wanting);
  return most.wanting() > 1 && least.wanting() < most.wanting();
}

void Processor::deal_later() {
  if (will_deal_ || cores_.size() < 2 || !uneven()) return;
  will_deal_ = true;
  time_.after(kBalance_ns, [this] {
    will_deal_ = false;
    if (!uneven()) return;
    deal_anew();
    deal_later();
  });
}

// Who has had least first, each to a core that has fewest then: its own, if that is one.
void Processor::deal_anew() {
  advance();
  struct Dealt {
    std::size_t core;
    Work work;
  };
  std::vector<Dealt> all;
  for (std::size_t index = 0; index < cores_.size(); ++index) {
    Core& core = cores_[index];
    for (Work& work : core.works) {
      work.begin -= core.given;
      work.end -= core.given;
      all.push_back(Dealt{index, std::move(work)});
    }
    core.works.clear();
  }
  std::ranges::sort(all, [](const Dealt& one, const Dealt& other) {
    return one.work.begin != other.work.begin ? one.work.begin > other.work.begin : one.work.order < other.work.order;
  });
  for (Dealt& one : all) {
    const auto fewest = std::ranges::min_element(cores_, {}, &Core::wanting);
    const bool stays = cores_[one.core].wanting() == fewest->wanting();
    const std::size_t home = stays ? one.core : static_cast<std::size_t>(fewest - cores_.begin());
    move_home(one.work.process, home);
    add(cores_[home], std::move(one.work));
  }
  look_later();
}

// ---------------------------------------------------------------- who waits

std::uint64_t Processor::switch_to(ProcessId process) {
  if (cores_.empty()) return 0;
  const bool other = std::exchange(last_, process) != process;
  const bool one_is_free = works_ + polling_ < cores_.size();
  if (!other || one_is_free) return 0;
  const double turns = (static_cast<double>(polling_) / static_cast<double>(cores_.size()) + 1) / 2;
  return static_cast<std::uint64_t>(static_cast<double>(switch_ns_) * std::max(1.0, turns));
}

std::uint64_t Processor::yield_once(ProcessId process) {
  if (cores_.empty() || home_of(process).has_nobody()) return 0;
  last_ = process;
  return switch_ns_;
}

void Processor::poll(ProcessId process, bool more) {
  assert(more || polling_ != 0);
  polling_ = more ? polling_ + 1 : polling_ - 1;
  if (cores_.empty()) return;
  Process& waiting = known(process);
  assert(more || waiting.polling != 0);
  waiting.polling = more ? waiting.polling + 1 : waiting.polling - 1;
  Core& core = cores_[waiting.home];
  core.polling = more ? core.polling + 1 : core.polling - 1;
}

void Processor::spin(ProcessId process, bool more) {
  if (cores_.empty()) return;
  advance();
  Process& waiting = known(process);
  assert(more || waiting.spinning != 0);
  Core& core = cores_[waiting.home];
  core.spinning -= waiting.only_spinning();
  waiting.spinning = more ? waiting.spinning + 1 : waiting.spinning - 1;
  core.spinning += waiting.only_spinning();
  look_later();
  deal_later();
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
  processor_.run(process_, steps_.front().at_ns - had_ns_, [this] { take_steps(); });
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
