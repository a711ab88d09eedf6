#include "engine/core/choice_trials.hpp"

#include <algorithm>
#include <vector>

namespace outrigger::engine {
namespace {

constexpr std::uint32_t kRoundsForGood = 2;  // lost by every algorithm so often, a kind of call is native for good

// In the order in which they are tried.
std::vector<Way> candidates_of(const TrialRequest& request) {
  std::vector<Way> candidates{Way::native(), Way::by(request.if_offloaded)};
  for (const Algorithm algorithm : kCollectives[index_of(request.key.collective())].algorithms) {
    const Way way = Way::by(algorithm);
    if (std::ranges::find(candidates, way) == candidates.end()) candidates.push_back(way);
  }
  return candidates;
}

Way next_challenger(TriedWays& tried, const std::vector<Way>& candidates, Way usual) {
  const auto next = [&] { return candidates[tried.next++ % candidates.size()]; };
  const Way way = next();
  return way == usual ? next() : way;
}

std::uint16_t number_after(std::uint16_t number) {
  ++number;
  return number == 0 ? 1 : number;
}

}  // namespace

Group* ChoiceTrials::led_for(WorldRank rank, GroupId id) const {
  Group* group = groups_.find(id);
  if (group == nullptr || !changes_.leads(*group)) return nullptr;
  return group->membership()->world(GroupRank{0}) == rank ? group : nullptr;
}

void ChoiceTrials::recall(WorldRank rank, GroupId id, const Choice& choice) {
  Group* group = led_for(rank, id);
  if (group == nullptr || !choice.way.possible_for(choice.key) || choice.for_good) return;
  Course& wanted = group->course.wanted;
  if (wanted.choice(choice.key) != nullptr || wanted.trial.key == choice.key || !wanted.choose(choice)) return;
  changes_.steer(*group);
  changes_.settle(*group);
}

void ChoiceTrials::ask(WorldRank rank, GroupId id, const TrialRequest& request) {
  Group* group = led_for(rank, id);
  if (group == nullptr || !request.valid()) return;
  GroupCourse& course = group->course;
  const Choice* made = course.wanted.choice(request.key);
  if (course.plan.after.suspended.has(request.key.collective()) || (made != nullptr && made->for_good)) return;
  if (made == nullptr && course.wanted.choices.back().key.known()) return;  // the limit
  const std::vector<Way> candidates = candidates_of(request);
  const Way usual = made != nullptr ? made->way : request.usual;
  const Way other = next_challenger(course.trials.tried[request.key], candidates, usual);
  course.trials.last_number = number_after(course.trials.last_number);
  course.trials.candidates = static_cast<std::uint32_t>(candidates.size());
  const std::vector<SpId>& services = group->membership()->services();
  course.trials.awaited = {services.begin(), services.end()};
  course.trials.sum.reset();
  course.trials.spoiled = false;
  course.wanted.trial = Trial{course.trials.last_number, request.key, usual, other, request.window_log2};
  changes_.steer(*group);
  changes_.settle(*group);
}

void ChoiceTrials::give_up(WorldRank rank, GroupId id, std::uint16_t trial) {
  Group* group = led_for(rank, id);
  if (group == nullptr || trial == 0 || group->course.wanted.trial.number != trial) return;
  conclude(*group, group->course.wanted.trial.usual);
}

void ChoiceTrials::measured(WorldRank rank, GroupId id, std::uint16_t trial, const TrialTimes& times) {
  Group* group = groups_.find(id);
  if (group == nullptr || group->membership() == nullptr || trial == 0) return;
  const Membership& members = *group->membership();
  LocalTimes& local = group->course.measured;
  if (local.trial != trial) local = LocalTimes{trial, {}, std::nullopt};
  if (!members.find(rank) || !local.ranks.insert(rank).second) return;
  add_to(local.sum, times);
  if (local.ranks.size() != members.local().size()) return;
  const peer::Measured all{trial, *local.sum};
  if (changes_.leads(*group)) return add(*group, context_.config.self, all);
  context_.send(members.service_of(GroupRank{0}), OperationId{id, 0}, all);
}

void ChoiceTrials::on_measured(SpId from, const OperationId& id, const peer::Measured& measured) {
  Group* group = groups_.find(id.group);
  if (group != nullptr && changes_.leads(*group)) add(*group, from, measured);
}

void ChoiceTrials::add(Group& group, SpId from, const peer::Measured& measured) {
  GroupTrials& trials = group.course.trials;
  if (measured.trial != group.course.wanted.trial.number || trials.awaited.erase(from) == 0) return;
  add_to(trials.sum, measured.times);
  if (!trials.awaited.empty()) return;
  conclude(group, trials.spoiled ? std::nullopt : better_way(group.course.wanted.trial, *trials.sum));
}

// Nothing: it cannot be told.
void ChoiceTrials::conclude(Group& group, std::optional<Way> better) {
  GroupCourse& course = group.course;
  const Trial trial = course.wanted.trial;
  course.wanted.trial = Trial{};
  if (better) {
    TriedWays& tried = course.trials.tried[trial.key];
    tried.natives = better->is_native() ? tried.natives + 1 : 0;
    const bool for_good = tried.natives >= kRoundsForGood * (course.trials.candidates - 1);
    course.wanted.choose(Choice{trial.key, *better, for_good});
  }
  changes_.settle(group);
}

}  // namespace outrigger::engine
