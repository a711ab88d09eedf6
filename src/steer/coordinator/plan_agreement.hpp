// Changes of communicators' dispatch plans, agreed among their service processes (steer/plan/dispatch_plan.hpp says why
// that is right).
//
//     member                    leader: serves the first rank
//       vote {suspension} ------->
//       <-------------------- hold      no rank begins a call any more
//       held {least, most} ------->
//       <------- resume {from: most, before, after}
//
// A service process that takes the place of a dead one finds its ranks held, or not. A leader repeats how the last
// change has ended, or starts it again if it has not. A new leader takes the newest plan that any rank has, so a change
// that no rank knows has not happened. Trials end: their measurements are lost.
//
// 3 messages to and from each service process a change. Ranks are held for two of them, and only those that call.
#pragma once

#include "steer/coordinator/communicator.hpp"

namespace outrigger::steer {

class Agreement {
 public:
  Agreement(Context& context, Communicators& communicators) : context_(context), communicators_(communicators) {}

  // As Coordinator says.
  void vote(const Suspended& everywhere);
  void vote(Communicator& communicator, const Suspended& suspended);
  [[nodiscard]] bool wants_retry() const { return wants_retry_; }
  void retry();

  // A call of the communicator goes by its plan.
  void steer(Communicator& communicator) {
    if (!communicator.steered) begin_steering(communicator);
  }
  // No call of it has gone by its plan, but service processes fail.
  void steer_if_failing(Communicator& communicator) {
    if (everywhere_.failing || communicator.failing) steer(communicator);
  }
  // At the leader: makes Communicator::wanted the plan.
  void settle(Communicator& communicator);
  // As Coordinator says, after a restart of this service process and of a peer.
  void restore(Communicator& communicator, const PlanChange& newest);
  void peer_restarted(Communicator& communicator, SpId peer);

  void on_vote(SpId from, const OperationId& about, const Vote& vote);
  void on_hold(SpId from, const OperationId& about);
  void on_held(SpId from, const OperationId& about, const Held& held);
  void on_resume(SpId from, const OperationId& about, const Resume& resume);

 private:
  void begin_steering(Communicator& communicator);
  void tell(Communicator& communicator);
  void begin(Communicator& communicator, const DispatchPlan& to);
  [[nodiscard]] Held hold_local(const Communicator& communicator);
  void count(Communicator& communicator, SpId from, const Held& held);
  void decide(Communicator& communicator);
  void resume_local(const Communicator& communicator, const PlanChange* change);
  void send_plan(const Communicator& communicator, SpId to);
  // To all of its service processes but this.
  void send_others(const Communicator& communicator, const Body& body);

  Context& context_;
  Communicators& communicators_;
  Suspended everywhere_;
  bool wants_retry_ = false;
};

}  // namespace outrigger::steer
