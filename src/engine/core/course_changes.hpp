// Changes of communicators' courses, agreed among their service processes (protocol/course.hpp says why it is right).
//
//     member                    leader: serves the first rank
//       wish {course} ------------>
//       <-------------------- hold      no rank begins a call any more
//       held {least, most} ------->
//       <------- resume {from: most, before, after}
//
// A service process that takes the place of one that has died finds its ranks held, or not. A leader says again how the
// last change has ended, or asks again where it has not; a new leader goes by the newest plan that any rank has, so
// that a change that nobody knows of has not been. Trials end: what had been measured is lost.
//
// 3 messages to and from each service process a change. Ranks are held for two of them, and only those that call.
#pragma once

#include "engine/core/context.hpp"
#include "engine/core/group_table.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace outrigger::engine {

class CourseChanges {
 public:
  CourseChanges(Context& context, GroupTable& groups) : context_(context), groups_(groups) {}

  // As Engine says.
  void wish(const Suspended& everywhere);
  void wish(GroupId id, const Suspended& suspended);
  [[nodiscard]] bool wants_retry() const { return wants_retry_; }
  void retry();

  // A call of the group goes by its course.
  void steer(Group& group) {
    if (!group.course.steered) begin_steering(group);
  }
  // No call of it has gone by its course, but service processes fail.
  void steer_if_failing(Group& group) {
    if (everywhere_.failing || group.course.failing) steer(group);
  }
  // At the leader: what GroupCourse::wanted says is to be.
  void settle(Group& group);
  [[nodiscard]] bool leads(const Group& group) const;
  // As Engine says, after a restart of this service process and of a peer.
  void restore(Group& group, const CoursePlan& plan);
  void peer_restarted(Group& group, SpId peer);
  // The rank has freed the group.
  void let_go(WorldRank rank, GroupId id) { context_.fabric.ranks.resume_calls(rank, id, nullptr); }

  void on_wish(SpId from, const OperationId& id, const peer::Wish& wish);
  void on_hold(SpId from, const OperationId& id);
  void on_held(SpId from, const OperationId& id, const peer::Held& held);
  void on_resume(SpId from, const OperationId& id, const peer::Resume& resume);

 private:
  [[nodiscard]] static SpId leader_of(const Group& group);
  void begin_steering(Group& group);
  void tell(Group& group);
  void begin(Group& group, const Course& to);
  [[nodiscard]] peer::Held hold_local(const Group& group);
  void count(Group& group, SpId from, const peer::Held& held);
  void decide(Group& group);
  void resume_local(const Group& group, const CoursePlan* plan);
  void say_plan(const Group& group, SpId to);

  Context& context_;
  GroupTable& groups_;
  Suspended everywhere_;
  bool wants_retry_ = false;
};

}  // namespace outrigger::engine
