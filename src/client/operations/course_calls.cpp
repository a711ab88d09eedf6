#include "client/operations/course_calls.hpp"

#include <chrono>

#include "base/futex.hpp"
#include "client/operations/slot_request.hpp"

namespace outrigger::client {
namespace {

constexpr std::chrono::microseconds kBetweenLooksWhileHeld{1000};  // at whether the job has ended meanwhile

}  // namespace

// The service process looks how far this rank is once it has held it; here it is the other way round.
const steer::DispatchPlan* CourseCalls::next(const Group& group, bool counted) {
  if (lock_.is_inert()) return nullptr;
  if (!group.course().valid()) {
    if (!counted) group.count_call();
    return nullptr;
  }
  steer::PlanEntry& entry = steer::plan_entry(segment_, group.course());
  const std::uint64_t before = entry.calls.load(std::memory_order_relaxed);
  const std::uint64_t call = counted ? before - 1 : before;
  if (!counted) entry.calls.store(call + 1, std::memory_order_seq_cst);
  while (entry.held.load(std::memory_order_seq_cst) != 0) {
    if (ended()) return nullptr;  // the operation will say so
    futex_wait(entry.held, 1, kBetweenLooksWhileHeld);
  }
  PlanInForce& known = group.in_force();
  const std::uint32_t changes = entry.changes.load(std::memory_order_acquire);
  if (changes != known.changes) known = PlanInForce{changes, entry.plan()};
  return &known.plan.at(call);
}

std::uint64_t CourseCalls::calls(const Group& group) const {
  if (lock_.is_inert()) return 0;
  if (!group.course().valid()) return group.counted_calls();
  return steer::plan_entry(segment_, group.course()).calls.load(std::memory_order_relaxed);
}

steer::NativeRun CourseCalls::spell(const Group& group, const steer::DispatchPlan& course, std::uint64_t most) {
  const PlanInForce& known = group.in_force();
  if (&course != &known.plan.after) return {};  // the next calls may be by another one
  return {lock_.inert, steer::plan_entry(segment_, group.course()), known.changes, most};
}

void CourseCalls::tell(const SlotRequestBody& body, const Group* used) try {
  Lock lock(lock_.mutex);
  if (lock_.is_inert()) return;
  if (used != nullptr) posts_.use(*used);
  posts_.tell(body);
  posts_.post_waiting();
  doorbell_.unlock_and_ring(lock);
} catch (...) {
  // No memory: it goes unsaid.
}

void CourseCalls::tell_of_larger_blocks(const Group& group, Collective collective) {
  SlotRequestBody body = describe(group, SlotRequest::larger_blocks);
  body.collective = static_cast<std::uint16_t>(collective);
  tell(body);
}

void CourseCalls::join(const Group& group) {
  if (!group.course().valid()) return;
  SlotRequestBody body = describe(group, SlotRequest::join_plan);
  body.group_size = group.size();
  body.group_rank = group.me().value();
  body.members = LocalRef{group.members().region.value(), 0, group.members().address};
  tell(body, &group);
}

void CourseCalls::ask_trial(const Group& group, const steer::TrialRequest& request) {
  SlotRequestBody body = describe(group, SlotRequest::ask_trial);
  body.algorithm = static_cast<std::uint16_t>(request.if_offloaded);
  body.root = request.encode();
  tell(body);
}

void CourseCalls::give_up(const Group& group, const steer::Trial& trial) {
  SlotRequestBody body = describe(group, SlotRequest::give_up);
  body.sequence = trial.number;
  tell(body);
}

void CourseCalls::recall(const Group& group, steer::CallKey key, steer::Method method) {
  SlotRequestBody body = describe(group, SlotRequest::recall);
  const Algorithm any = default_algorithm(key.collective());
  body.algorithm = static_cast<std::uint16_t>(any);
  body.root = steer::TrialRequest{key, method, any, 0}.encode();
  tell(body);
}

void CourseCalls::tell_times(const Group& group, const steer::Trial& trial, const steer::TrialTimes& times) {
  if (lock_.is_inert() || !group.course().valid()) return;
  steer::plan_entry(segment_, group.course()).put(times);
  SlotRequestBody body = describe(group, SlotRequest::measured);
  body.sequence = trial.number;
  tell(body);
}

// The operation that follows will say so.
bool CourseCalls::ended() {
  return segment_.header().fatal.load(std::memory_order_acquire) != 0 || control_.lost().has_value();
}

}  // namespace outrigger::client
