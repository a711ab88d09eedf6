#include "steer/coordinator/plan_agreement.hpp"

#include <algorithm>

namespace outrigger::steer {
namespace {

constexpr std::uint32_t kNumbersOfAnIncarnation = 4099;  // of trials, of 2^16
constexpr std::uint32_t kMostFailures = 10;              // retries that are left out grow to 2^10

Suspended both(const Suspended& a, const Suspended& b) {
  return {a.busy | b.busy, a.small | b.small, a.failing || b.failing};
}

// Busy or failing if any service process votes for it, small if all do; who has not voted votes for nothing.
Suspended combined(const Communicator& communicator) {
  Suspended all{0, kEveryCollective};
  for (const SpId service : communicator.services) {
    const auto found = communicator.votes.find(service);
    const Suspended vote = found == communicator.votes.end() ? Suspended{} : found->second;
    all.busy |= vote.busy;
    all.small &= vote.small;
    all.failing = all.failing || vote.failing;
  }
  return all;
}

DispatchPlan wanted_plan(const Communicator& communicator) {
  DispatchPlan to = communicator.wanted;
  to.suspended = combined(communicator);
  return to;
}

}  // namespace

// ---------------------------------------------------------------- votes

void Agreement::vote(const Suspended& everywhere) {
  everywhere_ = everywhere;
  std::vector<GroupId> ids;  // a change that is over may close its communicator
  for (const auto& [id, communicator] : communicators_.all()) ids.push_back(id);
  for (const GroupId& id : ids) {
    Communicator* communicator = communicators_.find(id);
    if (communicator == nullptr) continue;
    if (communicator->members != nullptr) steer_if_failing(*communicator);
    tell(*communicator);
  }
}

void Agreement::vote(Communicator& communicator, const Suspended& suspended) {
  communicator.own = suspended;
  tell(communicator);
}

void Agreement::begin_steering(Communicator& communicator) {
  communicator.steered = true;
  tell(communicator);
  settle(communicator);  // others may have voted before
}

void Agreement::tell(Communicator& communicator) {
  if (!communicator.steered) return;
  const Suspended vote = both(communicator.own, everywhere_);
  if (vote == communicator.told) return;
  communicator.told = vote;
  if (!communicators_.leads(communicator)) {
    return context_.send(communicators_.leader_of(communicator), OperationId{communicator.id, 0}, Vote{vote});
  }
  communicator.votes[context_.config.self] = vote;
  settle(communicator);
}

void Agreement::on_vote(SpId from, const OperationId& about, const Vote& vote) {
  if (communicators_.is_forgotten(about.group)) return;
  Communicator& communicator = communicators_.get(about.group);
  communicator.votes[from] = vote.suspended;
  communicator.failing = communicator.failing || vote.suspended.failing;
  if (communicator.members != nullptr) steer_if_failing(communicator);
  settle(communicator);
}

// ---------------------------------------------------------------- the leader

void Agreement::settle(Communicator& communicator) {
  if (communicator.changing || !communicator.steered || !communicators_.leads(communicator)) return;
  const DispatchPlan to = wanted_plan(communicator);
  if (to != communicator.plan.after) return begin(communicator, to);
  communicator.failures = 0;
}

void Agreement::begin(Communicator& communicator, const DispatchPlan& to) {
  ++communicator.number;
  communicator.changing.emplace().to = to;
  communicator.changing->awaited.insert(communicator.services.begin(), communicator.services.end());
  send_others(communicator, Hold{});
  count(communicator, context_.config.self, hold_local(communicator));
}

void Agreement::on_held(SpId from, const OperationId& about, const Held& held) {
  Communicator* communicator = communicators_.find(about.group);
  if (communicator == nullptr || !communicators_.leads(*communicator) || about.sequence != communicator->number) return;
  count(*communicator, from, held);
}

void Agreement::count(Communicator& communicator, SpId from, const Held& held) {
  std::optional<ChangeUnderWay>& change = communicator.changing;
  if (!change || change->awaited.erase(from) == 0) return;
  change->possible = change->possible && held.held;
  change->least = std::min(change->least, held.least);
  change->most = std::max(change->most, held.most);
  if (change->awaited.empty()) decide(communicator);
}

// All ranks must have begun the first call of the last change: a rank that has not goes by the plan before it.
void Agreement::decide(Communicator& communicator) {
  const ChangeUnderWay change = *communicator.changing;
  communicator.changing.reset();
  const bool passed = communicator.plan == PlanChange{} || change.least > communicator.plan.from;
  const bool changes = change.possible && passed;
  if (changes) {
    if (change.to.suspended != communicator.plan.after.suspended) communicator.trials.spoiled = true;
    communicator.plan = PlanChange{change.most, communicator.plan.after, change.to};
    communicator.failures = wanted_plan(communicator) == communicator.plan.after ? 0 : 1;  // voted otherwise by now
  } else {
    communicator.failures = std::min(communicator.failures + 1, kMostFailures);
  }
  wants_retry_ = wants_retry_ || communicator.failures != 0;
  communicator.pauses = (1U << communicator.failures) - 1;
  // Its own ranks first: a successor of this service process must find in their segments what any other rank has been
  // told. It does not see ranks of other nodes.
  resume_local(communicator, changes ? &communicator.plan : nullptr);
  send_others(communicator, Resume{changes, changes ? communicator.plan : PlanChange{}});
  communicators_.close_if_freed(communicator);
}

void Agreement::retry() {
  wants_retry_ = false;
  std::vector<Communicator*> due;
  for (auto& [id, communicator] : communicators_.all()) {
    if (communicator.failures == 0 || communicator.changing) continue;
    if (communicator.pauses == 0) {
      due.push_back(&communicator);
    } else {
      --communicator.pauses;
      wants_retry_ = true;
    }
  }
  for (Communicator* communicator : due) settle(*communicator);  // which closes no other
}

// ---------------------------------------------------------------- restarts

void Agreement::send_plan(const Communicator& communicator, SpId to) {
  const PlanChange& plan = communicator.plan;
  context_.send(to, OperationId{communicator.id, communicator.number}, Resume{plan != PlanChange{}, plan});
}

void Agreement::restore(Communicator& communicator, const PlanChange& newest) {
  if (!communicators_.leads(communicator)) return;
  communicator.plan = newest;
  communicator.wanted = newest.after;
  communicator.wanted.suspended = {};
  communicator.wanted.trial = {};
  // Ranks know trials by their numbers, and the predecessor's are not known here.
  communicator.trials.last_number = static_cast<std::uint16_t>(context_.config.epoch.value() * kNumbersOfAnIncarnation);
  send_others(communicator, Resume{newest != PlanChange{}, newest});
  resume_local(communicator, newest != PlanChange{} ? &newest : nullptr);
  settle(communicator);
}

void Agreement::peer_restarted(Communicator& communicator, SpId peer) {
  if (communicator.members == nullptr || !communicator.serves_members(peer)) return;
  if (communicators_.leader_of(communicator) == peer) {
    communicator.told = {};
    return tell(communicator);
  }
  if (!communicator.steered || !communicators_.leads(communicator)) return;
  communicator.wanted.trial = {};
  communicator.trials.awaited.clear();
  send_plan(communicator, peer);  // the dead one may have missed it, even where the next change has begun
  if (!communicator.changing) return settle(communicator);
  // From the beginning, by another number: earlier answers may not hold any more. All others' ranks stay held.
  communicator.changing.reset();
  begin(communicator, wanted_plan(communicator));
}

// ---------------------------------------------------------------- ranks of this service process

Held Agreement::hold_local(const Communicator& communicator) {
  Held held{true, ~std::uint64_t{0}, 0};
  for (const WorldRank rank : communicator.local) {
    const std::optional<std::uint64_t> calls =
        context_.serves(rank) ? context_.host.hold_calls(rank, communicator.id) : std::nullopt;
    held.held = held.held && calls.has_value();
    held.least = std::min(held.least, calls.value_or(0));
    held.most = std::max(held.most, calls.value_or(0));
  }
  return held;
}

void Agreement::resume_local(const Communicator& communicator, const PlanChange* change) {
  for (const WorldRank rank : communicator.local) context_.host.resume_calls(rank, communicator.id, change);
}

void Agreement::send_others(const Communicator& communicator, const Body& body) {
  for (const SpId service : communicator.services) {
    if (service != context_.config.self) context_.send(service, {communicator.id, communicator.number}, body);
  }
}

// Always answered: the leader waits for it, and other ranks with it.
void Agreement::on_hold(SpId from, const OperationId& about) {
  const Communicator* communicator = communicators_.find(about.group);
  const bool known =
      communicator != nullptr && communicator->members != nullptr && communicators_.leader_of(*communicator) == from;
  context_.send(from, about, known ? hold_local(*communicator) : Held{});
}

void Agreement::on_resume(SpId from, const OperationId& about, const Resume& resume) {
  const Communicator* communicator = communicators_.find(about.group);
  if (communicator == nullptr || communicator->members == nullptr) return;
  if (communicators_.leader_of(*communicator) != from) return;
  resume_local(*communicator, resume.changes ? &resume.change : nullptr);
}

}  // namespace outrigger::steer
