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

  // As Courses says.
  [[nodiscard]] const steer::DispatchPlan* next(const Group& group, bool counted);
  [[nodiscard]] std::uint64_t calls(const Group& group) const;
  [[nodiscard]] steer::NativeRun spell(const Group& group, const steer::DispatchPlan& course, std::uint64_t most);
  void tell_of_larger_blocks(const Group& group, Collective collective);
  void join(const Group& group);
  void ask_trial(const Group& group, const steer::TrialRequest& request);
  void give_up(const Group& group, const steer::Trial& trial);
  void recall(const Group& group, steer::CallKey key, steer::Method method);
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
