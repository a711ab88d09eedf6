#include "sim/model/processor.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace outrigger::sim::model {
namespace {

// Time slice of a process on a contended core: Linux's value for two cores (0.7 ms on one core, 2.8 ms on eight and
// more).
constexpr std::uint64_t kSlice_ns = 1'400'000;
// Interval of load balancing. Linux balances every n milliseconds on n cores, from two on.
constexpr std::uint64_t kBalance_ns = 2'000'000;
// An idle process may get new work at the same moment.
constexpr std::uint64_t kMoment_ns = 1;

}  // namespace

Processor::Process& Processor::known(ProcessId process) {
  const auto [found, is_new] = processes_.try_emplace(process);
  if (is_new) {
    const auto fewest = std::ranges::min_element(cores_, {}, &Core::processes);
    found->second.home = static_cast<std::size_t>(fewest - cores_.begin());
    ++fewest->processes;
  }
  return found->second;
}

void Processor::has_short_slices(ProcessId process) {
  if (!cores_.empty()) known(process).short_slices = true;
}

void Processor::run(ProcessId process, std::uint64_t work_ns, std::function<void()> done) {
  add(process, Work{work_ns, false, std::move(done)});
}

void Processor::yield_and_run(ProcessId process, std::uint64_t work_ns, std::function<void()> done) {
  add(process, Work{work_ns, true, std::move(done)});
}

void Processor::add(ProcessId process, Work work) {
  if (cores_.empty()) return time_.after(work.left_ns, std::move(work.done));
  Process& worker = known(process);
  go_to_empty_core(worker);
  Core& core = cores_[worker.home];
  account(core);
  if (worker.short_slices && !worker.listed && !core.is_empty()) work.left_ns += switch_ns_;
  worker.works.push_back(std::move(work));
  if (!worker.listed) list(worker);
  plan(core);
  balance_later();
}

// ---------------------------------------------------------------- placement

void Processor::move_home(Process& process, Core& core) {
  --cores_[process.home].processes;
  process.home = static_cast<std::size_t>(&core - cores_.data());
  ++core.processes;
}

// Takes a process from a contended core.
void Processor::go_to_empty_core(Process& process) {
  const Core& home = cores_[process.home];
  const std::size_t own = process.listed && process.wants() ? 1 : 0;
  if (home.wanting() == own || home.is_had_by(process)) return;
  const auto empty = std::ranges::find_if(cores_, &Core::is_empty);
  if (empty == cores_.end()) return;
  const bool was_listed = process.listed;
  if (was_listed) leave(process);
  move_home(process, *empty);
  if (was_listed) list(process);
}

// At the end of its core's ring.
void Processor::list(Process& process) {
  Core& core = cores_[process.home];
  process.listed = true;
  if (process.short_slices) return core.sharing.push_back(&process);
  catch_up(core);
  if (core.ring.empty()) {
    core.ring.push_back(&process);
    core.at = 0;
    core.turn_ns = time_.now_ns();
    return;
  }
  core.ring.insert(core.ring.begin() + static_cast<std::ptrdiff_t>(core.at), &process);
  ++core.at;
}

// Not while it has the core.
void Processor::unlist(Process& process) {
  Core& core = cores_[process.home];
  process.listed = false;
  if (process.short_slices) {
    std::erase(core.sharing, &process);
    return;
  }
  catch_up(core);
  const auto found = std::ranges::find(core.ring, &process);
  const auto index = static_cast<std::size_t>(found - core.ring.begin());
  assert(!core.is_had_by(process));
  core.ring.erase(found);
  if (index < core.at) --core.at;
  if (core.at >= core.ring.size()) core.at = 0;
}

void Processor::leave(Process& process) {
  Core& core = cores_[process.home];
  account(core);
  unlist(process);
  plan(core);
}

std::size_t Processor::Core::wanting() const {
  return sharing.size() + static_cast<std::size_t>(std::ranges::count_if(ring, &Process::wants));
}

// ---------------------------------------------------------------- turns

// Turns in which nothing was found.
void Processor::catch_up(Core& core) {
  const std::uint64_t now_ns = time_.now_ns();
  if (core.taken || core.ring.empty() || core.turn_ns >= now_ns) return;
  if (core.ring.size() == 1 || switch_ns_ == 0) {
    core.turn_ns = now_ns;
    return;
  }
  const std::uint64_t turns = (now_ns - core.turn_ns) / switch_ns_;
  core.at = (core.at + turns) % core.ring.size();
  core.turn_ns += turns * switch_ns_;
}

std::size_t Processor::Core::turns_before_work() const {
  std::size_t turns = 0;
  while (turns < ring.size() && !ring[(at + turns) % ring.size()]->wants()) ++turns;
  return turns;
}

// To be called before the number of sharers changes.
void Processor::account(Core& core) {
  const std::uint64_t passed_ns = time_.now_ns() - std::exchange(core.known_ns, time_.now_ns());
  const std::uint64_t parts = core.parts();
  if (parts == 0) return;
  const auto give = [given_ns = passed_ns / parts](Process& process) {
    process.had_ns += given_ns;
    if (!process.works.empty()) process.works.front().left_ns -= std::min(given_ns, process.works.front().left_ns);
  };
  for (Process* const process : core.sharing) give(*process);
  if (Process* const holder = core.holder(); holder != nullptr && holder->wants()) give(*holder);
}

// The next event of the core if nothing changes before.
std::uint64_t Processor::next_ns(const Core& core) const {
  const std::uint64_t now_ns = time_.now_ns();
  std::uint64_t next_ns = std::numeric_limits<std::uint64_t>::max();
  const auto ends_ns = [&](const Process& process) {
    return process.works.empty() ? process.rests_ns : now_ns + process.works.front().left_ns * core.parts();
  };
  for (const Process* const process : core.sharing) next_ns = std::min(next_ns, ends_ns(*process));
  if (!core.taken) {
    const std::size_t turns = core.turns_before_work();
    return turns == core.ring.size() ? next_ns : std::min(next_ns, core.turn_ns + turns * switch_ns_);
  }
  const Process& process = *core.holder();
  const bool alone = core.ring.size() == 1;
  if (!process.wants() || !process.works.empty()) next_ns = std::min(next_ns, ends_ns(process));
  if (!alone && process.wants()) next_ns = std::min(next_ns, core.turn_ns + kSlice_ns);
  return !alone && process.yields() ? now_ns : next_ns;
}

void Processor::plan(Core& core) {
  catch_up(core);
  const std::uint64_t number = ++core.plan;
  const std::uint64_t at_ns = next_ns(core);
  if (at_ns == std::numeric_limits<std::uint64_t>::max()) return;
  const auto index = static_cast<std::size_t>(&core - cores_.data());
  time_.at(std::max(at_ns, time_.now_ns()), [this, number, index] {
    if (cores_[index].plan == number) go_on(cores_[index]);
  });
}

// One event at a time: the next planned one may be due as well.
void Processor::go_on(Core& core) {
  account(core);
  for (Process* const process : core.sharing) {
    if (process->has_done_work()) return end_work(core, *process);
    if (process->works.empty() && process->rests_ns <= time_.now_ns()) {
      unlist(*process);
      return plan(core);
    }
  }
  Process* const holder = core.holder();
  if (holder != nullptr && holder->has_done_work() && !holder->yields()) return end_work(core, *holder);
  go_on_with_ring(core);
  plan(core);
}

void Processor::end_work(Core& core, Process& process) {
  const std::function<void()> done = std::move(process.works.front().done);
  process.works.pop_front();
  process.rests_ns = time_.now_ns() + kMoment_ns;
  plan(core);
  done();
}

void Processor::go_on_with_ring(Core& core) {
  const std::uint64_t now_ns = time_.now_ns();
  if (!core.taken) {
    const std::size_t turns = core.turns_before_work();
    if (turns != core.ring.size() && core.turn_ns + turns * switch_ns_ <= now_ns) take(core);
    return;
  }
  Process& process = *core.holder();
  const bool alone = core.ring.size() == 1;
  if (process.wants()) {
    const bool yields = process.yields();
    if (alone && yields) process.works.front().next_turn = false;
    if (!alone && (yields || now_ns >= core.turn_ns + kSlice_ns)) pass_on(core);
    return;
  }
  if (process.rests_ns > now_ns) return;
  pass_on(core);
  if (!process.is_there()) unlist(process);
}

void Processor::take(Core& core) {
  core.at = (core.at + core.turns_before_work()) % core.ring.size();
  core.taken = true;
  core.turn_ns = time_.now_ns();
  Process& process = *core.ring[core.at];
  if (!process.works.empty()) process.works.front().next_turn = false;
}

void Processor::pass_on(Core& core) {
  core.taken = false;
  core.turn_ns = time_.now_ns();
  if (core.ring.size() == 1) return;
  core.at = (core.at + 1) % core.ring.size();
  core.turn_ns += switch_ns_;
}

// ---------------------------------------------------------------- load balancing

bool Processor::uneven() const {
  const auto [least, most] = std::ranges::minmax(cores_, {}, &Core::wanting);
  return most.wanting() > 1 && least.wanting() < most.wanting();
}

void Processor::balance_later() {
  if (will_balance_ || cores_.size() < 2 || !uneven()) return;
  will_balance_ = true;
  time_.after(kBalance_ns, [this] {
    will_balance_ = false;
    if (!uneven()) return;
    balance();
    balance_later();
  });
}

// Moves a process from the fullest core to the emptiest: of those that share or wait, the one with the least core time.
void Processor::balance() {
  const auto [least, most] = std::ranges::minmax_element(cores_, {}, &Core::wanting);
  account(*most);
  account(*least);
  Process* moved = nullptr;
  const auto consider = [&](Process* one) {
    if (most->is_had_by(*one) || !one->wants()) return;
    if (moved == nullptr || one->had_ns < moved->had_ns) moved = one;
  };
  std::ranges::for_each(most->ring, consider);
  std::ranges::for_each(most->sharing, consider);
  if (moved == nullptr) return;
  unlist(*moved);
  move_home(*moved, *least);
  list(*moved);
  plan(*most);
  plan(*least);
}

// ---------------------------------------------------------------- who waits

// It keeps its place for a moment, because it may get new work. A process that has the core leaves in
// go_on_with_ring().
void Processor::leave_if_gone(Process& process) {
  process.rests_ns = time_.now_ns() + kMoment_ns;
  Core& core = cores_[process.home];
  plan(core);
  const auto is_gone = [this, &process] {
    const bool has_core = cores_[process.home].is_had_by(process);
    return !process.is_there() && process.listed && !process.short_slices && !has_core;
  };
  if (!is_gone()) return;
  time_.at(process.rests_ns, [this, &process, is_gone] {
    if (is_gone()) leave(process);
  });
}

void Processor::wait(Process& process, std::uint32_t& how, bool more) {
  assert(more || how != 0);
  Core& core = cores_[process.home];
  account(core);
  how = more ? how + 1 : how - 1;
  if (!more) return leave_if_gone(process);
  if (!process.listed) list(process);
  plan(core);
}

void Processor::poll(ProcessId process, bool more) {
  if (cores_.empty()) return;
  Process& waiting = known(process);
  wait(waiting, waiting.polling, more);
}

void Processor::spin(ProcessId process, bool more) {
  if (cores_.empty()) return;
  Process& waiting = known(process);
  if (more && waiting.spinning == 0) go_to_empty_core(waiting);
  wait(waiting, waiting.spinning, more);
  if (more) balance_later();
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

// The last step may begin the next burst, so this one is not read after it.
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
