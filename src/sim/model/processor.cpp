#include "sim/model/processor.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace outrigger::sim::model {
namespace {

// For how long a process that does not wait keeps a core that others want: Linux's slice on two cores; 0.7 ms on one,
// 2.8 ms on eight and more.
constexpr std::uint64_t kSlice_ns = 1'400'000;
// Until a kernel moves a process away from others to a core that has fewer: Linux looks every so many milliseconds as
// there are cores, from two on.
constexpr std::uint64_t kBalance_ns = 2'000'000;
// A process that has nothing to do may be given something at the same moment.
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

void Processor::run(ProcessId process, std::uint64_t work_ns, std::function<void()> done) {
  add(process, Work{work_ns, false, std::move(done)});
}

void Processor::yield_and_run(ProcessId process, std::uint64_t work_ns, std::function<void()> done) {
  add(process, Work{work_ns, true, std::move(done)});
}

void Processor::add(ProcessId process, Work work) {
  if (cores_.empty()) return time_.after(work.left_ns, std::move(work.done));
  Process& worker = known(process);
  worker.works.push_back(std::move(work));
  go_where_nobody_is(worker);
  if (!worker.listed) list(worker, true);
  Core& core = cores_[worker.home];
  const bool has_core = core.taken && core.ring[core.at] == &worker;
  if (has_core && worker.works.size() == 1) go_on(core);
  look(core);
  balance_later();
}

// ---------------------------------------------------------------- who is where

// From where others are.
void Processor::go_where_nobody_is(Process& process) {
  const Core& home = cores_[process.home];
  const bool alone = home.ring.empty() || (home.ring.size() == 1 && process.listed);
  const bool has_it = process.listed && home.taken && home.ring[home.at] == &process;
  if (alone || has_it || wanting(home) == (process.listed ? 1U : 0U)) return;
  const auto empty = std::ranges::find_if(cores_, [](const Core& core) { return core.ring.empty(); });
  if (empty == cores_.end()) return;
  if (process.listed) unlist(process);
  --cores_[process.home].processes;
  process.home = static_cast<std::size_t>(empty - cores_.begin());
  ++empty->processes;
}

// Who is woken comes next, after those that were before, or at once; others come last.
void Processor::list(Process& process, bool woken) {
  Core& core = cores_[process.home];
  catch_up(core);
  process.listed = true;
  const auto place = [&core](std::size_t index) { return core.ring.begin() + static_cast<std::ptrdiff_t>(index); };
  if (core.ring.empty()) {
    core.ring.push_back(&process);
    core.at = 0;
    core.turn_ns = time_.now_ns();
    return;
  }
  if (woken && may_interrupt(core)) {
    account(core);
    core.ring.insert(place(core.at), &process);
    core.taken = false;
    core.turn_ns = time_.now_ns() + switch_ns_;
    return look(core);
  }
  if (woken) {
    ++core.woken;
    core.ring.insert(place(std::min(core.at + core.woken, core.ring.size())), &process);
  } else {
    core.ring.insert(place(core.at), &process);
    ++core.at;
  }
  if (core.taken && core.ring.size() == 2 && core.ring[core.at]->wants()) {  // whose slice has an end now
    account(core);
    go_on(core);
  }
}

// Who has just got the core from another keeps it for a slice. Who has had it alone, and yielded to nobody, does not.
bool Processor::may_interrupt(const Core& core) const {
  return core.taken && core.ring[core.at]->wants() && time_.now_ns() >= core.kept_until_ns;
}

// Not while it has the core.
void Processor::unlist(Process& process) {
  Core& core = cores_[process.home];
  catch_up(core);
  const auto found = std::ranges::find(core.ring, &process);
  const auto index = static_cast<std::size_t>(found - core.ring.begin());
  assert(!core.taken || index != core.at);
  core.ring.erase(found);
  if (index < core.at) --core.at;
  if (index > core.at && index <= core.at + core.woken) --core.woken;
  if (core.at >= core.ring.size()) core.at = 0;
  process.listed = false;
}

// Of the turns in which nothing was found.
void Processor::catch_up(Core& core) {
  const std::uint64_t now_ns = time_.now_ns();
  if (core.taken || core.ring.empty() || core.turn_ns >= now_ns) return;
  if (core.ring.size() == 1) {
    core.last = core.ring.front();
    core.kept_until_ns = 0;
  }
  if (core.ring.size() == 1 || switch_ns_ == 0) {
    core.turn_ns = now_ns;
    return;
  }
  const std::uint64_t turns = (now_ns - core.turn_ns) / switch_ns_;
  if (turns == 0) return;
  core.at = (core.at + turns) % core.ring.size();
  core.turn_ns += turns * switch_ns_;
  core.woken = 0;
}

// ---------------------------------------------------------------- turns

void Processor::plan(Core& core, std::uint64_t at_ns, void (Processor::*what)(Core&)) {
  const std::uint64_t number = ++core.plan;
  const auto index = static_cast<std::size_t>(&core - cores_.data());
  time_.at(at_ns, [this, number, index, what] {
    if (cores_[index].plan == number) (this->*what)(cores_[index]);
  });
}

// How many have their turn before one that has something to do; all of them if nobody has.
std::size_t Processor::turns_before_work(const Core& core) {
  const std::size_t size = core.ring.size();
  std::size_t turns = 0;
  while (turns < size && !core.ring[(core.at + turns) % size]->wants()) ++turns;
  return turns;
}

// For the next that has something to do, when its turn comes.
void Processor::look(Core& core) {
  if (core.taken) return;
  catch_up(core);
  ++core.plan;
  const std::size_t turns = turns_before_work(core);
  if (turns == core.ring.size()) return;
  plan(core, std::max(time_.now_ns(), core.turn_ns + turns * switch_ns_), &Processor::take);
}

void Processor::take(Core& core) {
  catch_up(core);
  const std::size_t turns = turns_before_work(core);
  assert(turns < core.ring.size());
  core.at = (core.at + turns) % core.ring.size();
  if (turns != 0) core.woken = 0;
  core.taken = true;
  core.turn_ns = time_.now_ns();
  Process& process = *core.ring[core.at];
  if (core.ring.size() > 1 || core.last != &process) core.kept_until_ns = core.turn_ns + kSlice_ns;
  core.last = &process;
  if (!process.works.empty()) process.works.front().next_turn = false;
  go_on(core);
}

// Whoever has the core does what it has to do, or spins, until its slice is over.
void Processor::go_on(Core& core) {
  const Process& process = *core.ring[core.at];
  const bool alone = core.ring.size() == 1;
  if (!process.works.empty() && process.works.front().next_turn && !alone) return settle_soon(core);
  core.work_ns = time_.now_ns();
  const std::uint64_t slice_ends_ns = std::max(core.work_ns, core.turn_ns + kSlice_ns);
  if (!process.works.empty()) {
    const std::uint64_t ends_ns = core.work_ns + process.works.front().left_ns;
    return plan(core, alone ? ends_ns : std::min(ends_ns, slice_ends_ns), &Processor::see);
  }
  if (!alone) return plan(core, slice_ends_ns, &Processor::see);
  ++core.plan;
}

void Processor::account(Core& core) {
  Process& process = *core.ring[core.at];
  const std::uint64_t passed_ns = time_.now_ns() - core.work_ns;
  core.work_ns = time_.now_ns();
  process.had_ns += passed_ns;
  if (!process.works.empty()) process.works.front().left_ns -= std::min(passed_ns, process.works.front().left_ns);
}

// Whether a work has ended, or the slice.
void Processor::see(Core& core) {
  account(core);
  Process& process = *core.ring[core.at];
  if (!process.works.empty() && process.works.front().left_ns == 0) return end_work(core);
  const bool over = core.ring.size() > 1 && time_.now_ns() >= core.turn_ns + kSlice_ns;
  over ? pass_on(core) : go_on(core);
}

void Processor::end_work(Core& core) {
  Process& process = *core.ring[core.at];
  const std::function<void()> done = std::move(process.works.front().done);
  process.works.pop_front();
  process.works.empty() ? settle_soon(core) : go_on(core);
  done();
}

void Processor::settle_soon(Core& core) {
  plan(core, time_.now_ns() + kMoment_ns, &Processor::settle);
}

// It has nothing more to do in this turn.
void Processor::settle(Core& core) {
  Process& process = *core.ring[core.at];
  if (process.works.empty() && process.spinning != 0) return go_on(core);
  if (process.is_there()) return pass_on(core);
  core.taken = false;
  core.turn_ns = time_.now_ns() + switch_ns_;
  core.woken = 0;
  unlist(process);
  look(core);
}

void Processor::pass_on(Core& core) {
  core.taken = false;
  core.woken = 0;
  if (core.ring.size() > 1) {
    core.at = (core.at + 1) % core.ring.size();
    core.turn_ns = time_.now_ns() + switch_ns_;
  }
  look(core);
}

// ---------------------------------------------------------------- more than one core

std::size_t Processor::wanting(const Core& core) {
  return static_cast<std::size_t>(std::ranges::count_if(core.ring, &Process::wants));
}

bool Processor::uneven() const {
  const auto [least, most] = std::ranges::minmax(cores_, {}, &Processor::wanting);
  return wanting(most) > 1 && wanting(least) < wanting(most);
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

// Of those that wait for their turn where most are, who has had least goes to where fewest are.
void Processor::balance() {
  const auto [least, most] = std::ranges::minmax_element(cores_, {}, &Processor::wanting);
  Process* moved = nullptr;
  for (std::size_t index = 0; index < most->ring.size(); ++index) {
    Process* const one = most->ring[index];
    if ((most->taken && index == most->at) || !one->wants()) continue;
    if (moved == nullptr || one->had_ns < moved->had_ns) moved = one;
  }
  if (moved == nullptr) return;
  unlist(*moved);
  --most->processes;
  moved->home = static_cast<std::size_t>(least - cores_.begin());
  ++least->processes;
  list(*moved, true);
  for (Core& core : cores_) look(core);
}

// ---------------------------------------------------------------- who waits

void Processor::unlist_if_gone(Process& process) {
  if (process.is_there() || !process.listed) return;
  Core& core = cores_[process.home];
  if (core.taken && core.ring[core.at] == &process) return settle_soon(core);
  unlist(process);
  look(core);
}

void Processor::poll(ProcessId process, bool more) {
  if (cores_.empty()) return;
  Process& waiting = known(process);
  assert(more || waiting.polling != 0);
  waiting.polling = more ? waiting.polling + 1 : waiting.polling - 1;
  if (!more) return unlist_if_gone(waiting);
  if (waiting.listed) return;
  list(waiting, false);
  Core& core = cores_[waiting.home];
  look(core);
}

void Processor::spin(ProcessId process, bool more) {
  if (cores_.empty()) return;
  Process& waiting = known(process);
  assert(more || waiting.spinning != 0);
  waiting.spinning = more ? waiting.spinning + 1 : waiting.spinning - 1;
  if (!more) return unlist_if_gone(waiting);
  go_where_nobody_is(waiting);
  if (!waiting.listed) list(waiting, false);
  Core& core = cores_[waiting.home];
  look(core);
  balance_later();
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
