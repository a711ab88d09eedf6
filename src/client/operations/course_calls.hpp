// A rank's calls on communicators that have a course (steer/plan/dispatch_plan.hpp), and what service processes are
// told of them.
//
// Thread rule: any thread, one call of a group at a time.
#pragma once

#include "client/endpoint_lock.hpp"
#include "client/operations/client_group.hpp"
#include "client/operations/doorbell.hpp"
#include "client/operations/rank_posts.hpp"
#include "client/start/control_channel.hpp"
#include "protocol/shared/segment.hpp"
#include "steer/plan/decision.hpp"
#include "steer/rank/native_run.hpp"

namespace outrigger::client {

class CourseCalls {
 public:
  CourseCalls(EndpointLock& lock, SegmentView segment, Posts& posts, Doorbell& doorbell, ControlChannel& control)
      : lock_(lock), segment_(segment), posts_(posts), doorbell_(doorbell), control_(control) {}

  // The rank calls a collective on the group that its course decides; one call of a group at a time. Returns the plan of
  // this call, the same on all ranks. While service processes agree on another course the call waits for them, a few
  // messages long, and for no rank. nullptr: the group has no course.
  // `counted`: a spell has counted the call.
  [[nodiscard]] const steer::DispatchPlan* next(const Group& group, bool counted);
  // How many calls of the group have gone by its course, or would have, had this rank an entry for it.
  [[nodiscard]] std::uint64_t calls(const Group& group) const;
  // The call for which next() has said `course` was native, and the next ones of its kind are, too, `most` at most.
  [[nodiscard]] steer::NativeRun spell(const Group& group, const steer::DispatchPlan& course, std::uint64_t most);
  // The collective is native for small blocks, and this rank has called it with others: service processes may take it
  // back.
  void tell_of_larger_blocks(const Group& group, Collective collective);
  // The rank has called such collectives, but not posted any: service processes hear of the group.
  void join(const Group& group);
  // Two ways are to be tried in turn (steer/plan/decision.hpp).
  void ask_trial(const Group& group, const steer::TrialRequest& request);
  // The one that is under way costs too much.
  void give_up(const Group& group, const steer::Trial& trial);
  // How an earlier run has done such calls in the end.
  void recall(const Group& group, steer::CallKey key, steer::Method method);
  // The rank has been through one.
  void tell_times(const Group& group, const steer::Trial& trial, const steer::TrialTimes& times);

 private:
  [[nodiscard]] bool ended();
  // A request that nobody waits for.
  // `used`: a group that the service process hears of by this.
  void tell(const SlotRequestBody& body, const Group* used = nullptr);

  EndpointLock& lock_;
  SegmentView segment_;
  Posts& posts_;
  Doorbell& doorbell_;
  ControlChannel& control_;
};

}  // namespace outrigger::client
