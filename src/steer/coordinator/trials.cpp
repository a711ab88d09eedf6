#include "steer/coordinator/trials.hpp"

#include <algorithm>
#include <vector>

namespace outrigger::steer {
namespace {

constexpr std::uint32_t kRoundsForGood = 2;  // lost by every algorithm so often, a kind of call is native for good

// In the order in which they are tried.
std::vector<Method> candidates_of(const TrialRequest& request) {
  std::vector<Method> candidates{Method::native(), Method::by(request.if_offloaded)};
  for (const Algorithm algorithm : kCollectives[index_of(request.key.collective())].algorithms) {
    const Method method = Method::by(algorithm);
    if (std::ranges::find(candidates, method) == candidates.end()) candidates.push_back(method);
  }
  return candidates;
}

Method next_challenger(TriedMethods& tried, const std::vector<Method>& candidates, Method usual) {
  const auto next = [&] { return candidates[tried.next++ % candidates.size()]; };
  const Method method = next();
  return method == usual ? next() : method;
}

std::uint16_t number_after(std::uint16_t number) {
  ++number;
  return number == 0 ? 1 : number;
}

}  // namespace

Communicator* Trials::led_for(WorldRank rank, const GroupId& id) {
  Communicator* communicator = communicators_.find(id);
  if (communicator == nullptr || !communicators_.leads(*communicator)) return nullptr;
  return communicator->members->front() == rank ? communicator : nullptr;
}

void Trials::recall(WorldRank rank, const GroupId& id, const CachedDecision& decision) {
  Communicator* communicator = led_for(rank, id);
  if (communicator == nullptr || !decision.method.possible_for(decision.key) || decision.for_good) return;
  DispatchPlan& wanted = communicator->wanted;
  if (wanted.decision(decision.key) != nullptr || wanted.trial.key == decision.key || !wanted.keep(decision)) return;
  agreement_.steer(*communicator);
  agreement_.settle(*communicator);
}

void Trials::ask(WorldRank rank, const GroupId& id, const TrialRequest& request) {
  Communicator* communicator = led_for(rank, id);
  if (communicator == nullptr || !request.valid()) return;
  DispatchPlan& wanted = communicator->wanted;
  TrialRecord& trials = communicator->trials;
  const CachedDecision* made = wanted.decision(request.key);
  if (communicator->plan.after.suspended.has(request.key.collective()) || (made != nullptr && made->for_good)) return;
  if (made == nullptr && wanted.decisions.back().key.known()) return;  // the limit
  const std::vector<Method> candidates = candidates_of(request);
  const Method usual = made != nullptr ? made->method : request.usual;
  const Method other = next_challenger(trials.tried[request.key], candidates, usual);
  trials.last_number = number_after(trials.last_number);
  trials.candidates = static_cast<std::uint32_t>(candidates.size());
  trials.awaited = {communicator->services.begin(), communicator->services.end()};
  trials.sum.reset();
  trials.spoiled = false;
  wanted.trial = Trial{trials.last_number, request.key, usual, other, request.window_log2};
  agreement_.steer(*communicator);
  agreement_.settle(*communicator);
}

void Trials::give_up(WorldRank rank, const GroupId& id, std::uint16_t trial) {
  Communicator* communicator = led_for(rank, id);
  if (communicator == nullptr || trial == 0 || communicator->wanted.trial.number != trial) return;
  conclude(*communicator, communicator->wanted.trial.usual);
}

void Trials::measured(WorldRank rank, const GroupId& id, std::uint16_t trial, const TrialTimes& times) {
  Communicator* communicator = communicators_.find(id);
  if (communicator == nullptr || trial == 0) return;
  LocalTimes& local = communicator->measured;
  if (local.trial != trial) local = LocalTimes{trial, {}, std::nullopt};
  if (!communicator->has_local(rank) || !local.ranks.insert(rank).second) return;
  add_to(local.sum, times);
  if (local.ranks.size() != communicator->local.size()) return;
  const Measured all{trial, *local.sum};
  if (communicators_.leads(*communicator)) return add(*communicator, context_.config.self, all);
  context_.send(communicators_.leader_of(*communicator), OperationId{id, 0}, all);
}

void Trials::on_measured(SpId from, const OperationId& about, const Measured& measured) {
  Communicator* communicator = communicators_.find(about.group);
  if (communicator != nullptr && communicators_.leads(*communicator)) add(*communicator, from, measured);
}

void Trials::add(Communicator& communicator, SpId from, const Measured& measured) {
  TrialRecord& trials = communicator.trials;
  if (measured.trial != communicator.wanted.trial.number || trials.awaited.erase(from) == 0) return;
  add_to(trials.sum, measured.times);
  if (!trials.awaited.empty()) return;
  conclude(communicator, trials.spoiled ? std::nullopt : better_method(communicator.wanted.trial, *trials.sum));
}

// Nothing: the times do not tell.
void Trials::conclude(Communicator& communicator, std::optional<Method> better) {
  const Trial trial = communicator.wanted.trial;
  communicator.wanted.trial = Trial{};
  if (better) {
    TriedMethods& tried = communicator.trials.tried[trial.key];
    tried.natives = better->is_native() ? tried.natives + 1 : 0;
    const bool for_good = tried.natives >= kRoundsForGood * (communicator.trials.candidates - 1);
    communicator.wanted.keep(CachedDecision{trial.key, *better, for_good});
  }
  agreement_.settle(communicator);
}

}  // namespace outrigger::steer
