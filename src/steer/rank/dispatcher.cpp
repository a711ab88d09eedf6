#include "steer/rank/dispatcher.hpp"

#include <chrono>
#include <limits>
#include <utility>

#include "base/futex.hpp"

namespace outrigger::steer {
namespace {

constexpr std::chrono::microseconds kBetweenLooksWhileHeld{1000};  // at whether the job has ended meanwhile

constexpr Answer native(NativeReason reason, Lasts lasts = Lasts::once) {
  return {Way::native, reason, lasts};
}

constexpr Answer offloaded(Algorithm algorithm, bool by_plan) {
  return {Way::offloaded, NativeReason::none, Lasts::once, by_plan, algorithm};
}

// `why`: of a native method.
constexpr Answer answer_of(Method method, NativeReason why) {
  return method.is_native() ? native(why) : offloaded(*method.algorithm(), true);
}

NativeReason reason_of(const Suspended& suspended, Collective collective) {
  if (suspended.failing) return NativeReason::services_died;
  const bool busy = (suspended.busy & Suspended::bit(collective)) != 0;
  return busy ? NativeReason::service_core_taken : NativeReason::small_blocks;
}

}  // namespace

void Dispatcher::close() {
  port_.store(nullptr, std::memory_order_relaxed);
  runs_ = {};
  remembered_ = {};
}

// ---------------------------------------------------------------- rules

[[gnu::flatten]] Answer Dispatcher::decide(const Call& call) {
  const bool counted = std::exchange(counted_, false);
  const CallKey key = call.key();
  if (is_retired(key)) return retire(key, retired_[key.value]);
  const Decision& table = by_table(call);
  if (!table.considered) return native(NativeReason::none, Lasts::for_good);
  if (const std::optional<Answer> ruled = by_rules(call, table)) return *ruled;
  return decide_ruled(key, table, counted);
}

const Decision& Dispatcher::by_table(const Call& call) {
  std::optional<LookedUp>& last = looked_up_[call.form.index()];
  if (!last || last->block_bytes != call.block_bytes) {
    last = {call.block_bytes,
            settings_.table->decide(call.form.blocking, call.form.collective, shape_, call.block_bytes)};
  }
  return last->decision;
}

NativeReason Dispatcher::reason_of_communicator() const {
  if (shape_.ranks == 1) return NativeReason::group_of_one;
  if (shape_.ranks > kMaxGroupSize) return NativeReason::group_too_large;
  return off() ? NativeReason::switched_off : NativeReason::none;
}

std::optional<Answer> Dispatcher::by_rules(const Call& call, const Decision& table) {
  const NativeReason reason = reason_of_communicator();
  const bool is_off = reason == NativeReason::switched_off;
  const bool fits = call.obstacle == NativeReason::none || (call.obstacle == NativeReason::rounding && table.by_user);
  if (!fits) return native(reason == NativeReason::none || is_off ? call.obstacle : reason, Lasts::for_good);
  const bool may_be_offloaded = table.algorithm || !(table.by_user || settings_.native_at_first);
  if (is_off && may_be_offloaded && !is_retired(call.key())) {
    calls_without_plan_.fetch_add(1, std::memory_order_relaxed);
  }
  if (reason != NativeReason::none) return native(reason);
  if (table.by_user && !table.algorithm) return native(NativeReason::users_rule, Lasts::for_good);
  return std::nullopt;
}

// ---------------------------------------------------------------- the plan

Answer Dispatcher::decide_start(CallKey key, const Decision& table) {
  if (key.without_sizes() && count_in_run({key.collective(), key.blocking()})) {
    return native(run_reason({key.collective(), key.blocking()}), Lasts::run);
  }
  return decide_ruled(key, table, std::exchange(counted_, false));
}

Answer Dispatcher::decide_ruled(CallKey key, const Decision& table, bool counted) {
  if (!table.by_user) return decide_by_plan(key, table, counted);
  const DispatchPlan* plan = next_plan(counted);
  const bool failing = plan != nullptr && plan->suspended.failing;
  return failing ? native(NativeReason::services_died) : offloaded(*table.algorithm, false);
}

Answer Dispatcher::decide_by_plan(CallKey key, const Decision& table, bool counted) {
  const Method usual = table.algorithm && !settings_.native_at_first ? Method::by(*table.algorithm) : Method::native();
  const NativeReason why_usual = table.algorithm ? NativeReason::not_tried : NativeReason::small_blocks;
  const Answer by_table = answer_of(usual, why_usual);
  // Small blocks by a service process beside the ranks: to wake it costs more than the operation, and so would a trial.
  const bool cannot_win = !table.algorithm && settings_.native_at_first;
  if (is_retired(key)) return retire(key, retired_[key.value]);
  if (usual.is_native() && (settings_.decisions == nullptr || cannot_win)) return retire(key, why_usual);
  if (usual.is_native() && too_few_to_steer()) return by_table;
  const DispatchPlan* plan = next_plan(counted);
  native_ = kFew;  // also without an entry: others that have one count from here on
  if (plan == nullptr) return by_table;
  const DispatchPort& port = *this->port();
  const Step step = trials_.next(port, *plan, key);
  Run& run = runs_[key.form_index()];
  if (first_ && settings_.decisions != nullptr) {
    if (run.calls.calls() != 0) trials_.pass(run.key, run.calls.calls());
    run = {};
    trials_.maybe_ask(port, {key, usual, table.if_offloaded, 0}, shape_, *settings_.decisions, settings_.early_trials);
  }
  const Answer answer = answer_to(step, *plan, key, by_table);
  const bool posts = answer.way == Way::offloaded;
  if (posts) larger_blocks_ &= ~Suspended::bit(key.collective());
  if (!std::exchange(joined_, true) && !posts) port.send({.kind = SlotRequest::join_plan});
  if (step.for_good) return retire(key, NativeReason::measured_choice);
  if (answer.lasts == Lasts::run) begin_run(port, key, answer.reason);
  return answer;
}

Answer Dispatcher::answer_to(const Step& step, const DispatchPlan& plan, CallKey key, const Answer& by_table) const {
  Answer answer = step.method ? answer_of(*step.method, NativeReason::measured_choice) : by_table;
  if (answer.way == Way::offloaded) {
    return step.suspended ? native(reason_of(plan.suspended, key.collective())) : answer;
  }
  // Sizes that a call does not show could end what small blocks have made native.
  const bool by_sizes = answer.reason != NativeReason::measured_choice && answer.reason != NativeReason::not_tried;
  const bool may_last = !by_sizes || !key.without_sizes();
  if (may_last && !plan.trial.under_way() && &plan == &plan_.after) answer.lasts = Lasts::run;
  return answer;
}

// The service process reads how far this rank is once it has held it; here it is the other way round.
const DispatchPlan* Dispatcher::next_plan(bool counted) {
  const DispatchPort* port = this->port();
  if (port == nullptr || port->is_inert()) return nullptr;
  PlanEntry* entry = port->entry();
  if (entry == nullptr) {
    if (!counted) calls_without_plan_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  const std::uint64_t before = entry->calls.load(std::memory_order_relaxed);
  const std::uint64_t call = counted ? before - 1 : before;
  if (!counted) entry->calls.store(call + 1, std::memory_order_seq_cst);
  while (entry->held.load(std::memory_order_seq_cst) != 0) {
    if (port->job_ended()) return nullptr;  // the operation will say so
    futex_wait(entry->held, 1, kBetweenLooksWhileHeld);
  }
  const std::uint32_t changes = entry->changes.load(std::memory_order_acquire);
  if (std::exchange(changes_, changes) != changes) plan_ = entry->plan();
  return &plan_.at(call);
}

const DispatchPort* Dispatcher::port() {
  const DispatchPort* known = port_.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  known = open_();
  port_.store(known, std::memory_order_release);
  return known;
}

// ---------------------------------------------------------------- answers that last

Answer Dispatcher::retire(CallKey key, NativeReason reason) {
  retired_[key.value] = reason;
  return native(reason, Lasts::for_good);
}

bool Dispatcher::count_in_run(CollectiveForm form) {
  const NativeRun::Call call = runs_[form.index()].calls.next();
  if (call.counted && !call.native) counted_ = true;
  return call.native;
}

void Dispatcher::begin_run(const DispatchPort& port, CallKey key, NativeReason reason) {
  const bool may_ask = first_ && settings_.decisions != nullptr;
  const std::uint64_t most = may_ask ? trials_.quiet_calls(key) : std::numeric_limits<std::uint64_t>::max();
  runs_[key.form_index()] = {{port.inert(), *port.entry(), changes_, most}, key, reason};
  if (!key.without_sizes()) remembered_[key.form_index()] = {};  // another kind of call may have been in the last run
}

// ---------------------------------------------------------------- messages and figures

void Dispatcher::note_largest_block(Collective collective, std::uint64_t bytes) {
  const CollectiveBits bit = Suspended::bit(collective);
  const DispatchPort* port = port_.load(std::memory_order_acquire);
  if (bytes <= kSmallBlockBytes || (larger_blocks_ & bit) != 0 || port == nullptr) return;
  larger_blocks_ |= bit;
  port->send({.kind = SlotRequest::larger_blocks, .collective = static_cast<std::uint16_t>(collective)});
}

std::uint64_t Dispatcher::calls() const {
  const DispatchPort* port = port_.load(std::memory_order_acquire);
  const bool has_plan = port != nullptr && !port->is_inert() && port->entry() != nullptr;
  const std::uint64_t by_plan = has_plan ? port->entry()->calls.load(std::memory_order_relaxed) : 0;
  return by_plan + calls_without_plan_.load(std::memory_order_relaxed);
}

}  // namespace outrigger::steer
