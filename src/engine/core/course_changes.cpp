#include "engine/core/course_changes.hpp"

#include <algorithm>
#include <vector>

namespace outrigger::engine {
namespace {

constexpr std::uint32_t kNumbersOfAnIncarnation = 4099;  // of trials, of 2^16
constexpr std::uint32_t kMostFailures = 10;              // retries that are left out grow to 2^10

Suspended both(const Suspended& a, const Suspended& b) {
  return {a.busy | b.busy, a.small | b.small, a.failing || b.failing};
}

// Busy or failing if any of them is, small if all are; who has not said anything wishes nothing.
Suspended combined(const GroupCourse& course, const std::vector<SpId>& services) {
  Suspended all{0, kEveryCollective};
  for (const SpId service : services) {
    const auto found = course.wishes.find(service);
    const Suspended wish = found == course.wishes.end() ? Suspended{} : found->second;
    all.busy |= wish.busy;
    all.small &= wish.small;
    all.failing = all.failing || wish.failing;
  }
  return all;
}

Course wanted_course(const Group& group) {
  Course to = group.course.wanted;
  to.suspended = combined(group.course, group.membership()->services());
  return to;
}

}  // namespace

SpId CourseChanges::leader_of(const Group& group) {
  return group.membership()->service_of(GroupRank{0});
}

bool CourseChanges::leads(const Group& group) const {
  return group.membership() != nullptr && leader_of(group) == context_.config.self;
}

// ---------------------------------------------------------------- wishes

void CourseChanges::wish(const Suspended& everywhere) {
  everywhere_ = everywhere;
  std::vector<GroupId> ids;  // a change that is over may end its group
  for (const auto& [id, group] : groups_.all()) ids.push_back(id);
  for (const GroupId& id : ids) {
    Group* group = groups_.find(id);
    if (group == nullptr) continue;
    if (group->membership() != nullptr) steer_if_failing(*group);
    tell(*group);
  }
}

void CourseChanges::wish(GroupId id, const Suspended& suspended) {
  Group* group = groups_.find(id);
  if (group == nullptr) return;
  group->course.own = suspended;
  tell(*group);
}

void CourseChanges::begin_steering(Group& group) {
  group.course.steered = true;
  tell(group);
  settle(group);  // others may have wished before
}

void CourseChanges::tell(Group& group) {
  if (!group.course.steered) return;
  const Suspended wish = both(group.course.own, everywhere_);
  if (wish == group.course.told) return;
  group.course.told = wish;
  if (!leads(group)) return context_.send(leader_of(group), OperationId{group.id(), 0}, peer::Wish{wish});
  group.course.wishes[context_.config.self] = wish;
  settle(group);
}

void CourseChanges::on_wish(SpId from, const OperationId& id, const peer::Wish& wish) {
  if (groups_.is_forgotten(id.group)) return;
  Group& group = groups_.get(id.group);
  group.course.wishes[from] = wish.suspended;
  group.course.failing = group.course.failing || wish.suspended.failing;
  if (group.membership() != nullptr) steer_if_failing(group);
  settle(group);
}

// ---------------------------------------------------------------- the leader

void CourseChanges::settle(Group& group) {
  GroupCourse& course = group.course;
  if (course.changing || !course.steered || !leads(group)) return;
  const Course to = wanted_course(group);
  if (to != course.plan.after) return begin(group, to);
  course.failures = 0;
}

void CourseChanges::begin(Group& group, const Course& to) {
  GroupCourse& course = group.course;
  ++course.number;
  course.changing.emplace().to = to;
  const std::vector<SpId>& services = group.membership()->services();
  course.changing->awaited.insert(services.begin(), services.end());
  for (const SpId service : services) {
    if (service != context_.config.self) context_.send(service, OperationId{group.id(), course.number}, peer::Hold{});
  }
  count(group, context_.config.self, hold_local(group));
}

void CourseChanges::on_held(SpId from, const OperationId& id, const peer::Held& held) {
  Group* group = groups_.find(id.group);
  if (group == nullptr || !leads(*group) || id.sequence != group->course.number) return;
  count(*group, from, held);
}

void CourseChanges::count(Group& group, SpId from, const peer::Held& held) {
  std::optional<CourseChange>& change = group.course.changing;
  if (!change || change->awaited.erase(from) == 0) return;
  change->possible = change->possible && held.held;
  change->least = std::min(change->least, held.least);
  change->most = std::max(change->most, held.most);
  if (change->awaited.empty()) decide(group);
}

// Of the last change all ranks must have begun the first call: whoever has not goes by the course before it.
void CourseChanges::decide(Group& group) {
  GroupCourse& course = group.course;
  const CourseChange change = *course.changing;
  course.changing.reset();
  const bool passed = course.plan == CoursePlan{} || change.least > course.plan.from;
  const bool changes = change.possible && passed;
  if (changes) {
    if (change.to.suspended != course.plan.after.suspended) course.trials.spoiled = true;
    course.plan = CoursePlan{change.most, course.plan.after, change.to};
    course.failures = wanted_course(group) == course.plan.after ? 0 : 1;  // something else is wished for by now
  } else {
    course.failures = std::min(course.failures + 1, kMostFailures);
  }
  wants_retry_ = wants_retry_ || course.failures != 0;
  course.pauses = (1U << course.failures) - 1;
  // Its own ranks first: whoever has its place after it must find in their segments what any other rank has been told.
  // Those of other nodes it does not see.
  resume_local(group, changes ? &course.plan : nullptr);
  const peer::Resume resume{changes, changes ? course.plan : CoursePlan{}};
  for (const SpId service : group.membership()->services()) {
    if (service != context_.config.self) context_.send(service, OperationId{group.id(), course.number}, resume);
  }
  groups_.close_if_freed(group);
}

void CourseChanges::retry() {
  wants_retry_ = false;
  std::vector<Group*> due;
  for (const auto& [id, group] : groups_.all()) {
    GroupCourse& course = group->course;
    if (course.failures == 0 || course.changing) continue;
    if (course.pauses == 0) {
      due.push_back(group.get());
    } else {
      --course.pauses;
      wants_retry_ = true;
    }
  }
  for (Group* group : due) settle(*group);  // which ends no other
}

// ---------------------------------------------------------------- restarts

void CourseChanges::say_plan(const Group& group, SpId to) {
  const CoursePlan& plan = group.course.plan;
  context_.send(to, OperationId{group.id(), group.course.number}, peer::Resume{plan != CoursePlan{}, plan});
}

void CourseChanges::restore(Group& group, const CoursePlan& plan) {
  if (!leads(group)) return;
  GroupCourse& course = group.course;
  course.plan = plan;
  course.wanted = plan.after;
  course.wanted.suspended = {};
  course.wanted.trial = {};
  // Ranks know trials by their numbers, and those of the one before are not known here.
  course.trials.last_number = static_cast<std::uint16_t>(context_.config.epoch.value() * kNumbersOfAnIncarnation);
  for (const SpId service : group.membership()->services()) {
    if (service != context_.config.self) say_plan(group, service);
  }
  resume_local(group, plan != CoursePlan{} ? &plan : nullptr);
  settle(group);
}

void CourseChanges::peer_restarted(Group& group, SpId peer) {
  const Membership* members = group.membership();
  if (members == nullptr || !std::ranges::binary_search(members->services(), peer)) return;
  GroupCourse& course = group.course;
  if (leader_of(group) == peer) {
    course.told = {};
    return tell(group);
  }
  if (!course.steered || !leads(group)) return;
  course.wanted.trial = {};
  course.trials.awaited.clear();
  say_plan(group, peer);  // the dead one may not have heard of it, even where the next change has begun
  if (!course.changing) return settle(group);
  // From the beginning, by another number: what has been answered may not hold any more. All others' ranks stay held.
  course.changing.reset();
  begin(group, wanted_course(group));
}

// ---------------------------------------------------------------- ranks of this service process

peer::Held CourseChanges::hold_local(const Group& group) {
  peer::Held held{true, ~std::uint64_t{0}, 0};
  const Membership& members = *group.membership();
  for (const GroupRank local : members.local()) {
    const WorldRank rank = members.world(local);
    const std::optional<std::uint64_t> calls =
        context_.is_dropped(rank) ? std::nullopt : context_.fabric.ranks.hold_calls(rank, group.id());
    held.held = held.held && calls.has_value();
    held.least = std::min(held.least, calls.value_or(0));
    held.most = std::max(held.most, calls.value_or(0));
  }
  return held;
}

void CourseChanges::resume_local(const Group& group, const CoursePlan* plan) {
  const Membership& members = *group.membership();
  for (const GroupRank local : members.local())
    context_.fabric.ranks.resume_calls(members.world(local), group.id(), plan);
}

// It is always answered: the leader waits for it, and other ranks with it.
void CourseChanges::on_hold(SpId from, const OperationId& id) {
  const Group* group = groups_.find(id.group);
  const bool known = group != nullptr && group->membership() != nullptr && leader_of(*group) == from;
  context_.send(from, id, known ? hold_local(*group) : peer::Held{});
}

void CourseChanges::on_resume(SpId from, const OperationId& id, const peer::Resume& resume) {
  const Group* group = groups_.find(id.group);
  if (group == nullptr || group->membership() == nullptr || leader_of(*group) != from) return;
  resume_local(*group, resume.changes ? &resume.plan : nullptr);
}

}  // namespace outrigger::engine
