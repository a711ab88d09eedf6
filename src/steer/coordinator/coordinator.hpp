// The coordinator of one service process: agrees with those of other service processes which calls of a communicator
// are offloaded, and how, from which call on. It knows what local ranks post and ask, not how operations are done: the
// engine and the coordinator never meet. Pure: no MPI, sockets, threads or clock.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "steer/coordinator/block_sizes.hpp"
#include "steer/coordinator/plan_agreement.hpp"
#include "steer/coordinator/trials.hpp"

namespace outrigger::steer {

class Coordinator {
 public:
  // `host` must outlive this.
  Coordinator(CoordinatorConfig config, CoordinatorHost& host) : context_(std::move(config), host) {}
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // A local rank posts an operation on the communicator. `by_plan`: its dispatch plan may make such calls native.
  void posted(WorldRank rank, const GroupId& group, const Members& members, bool by_plan);
  // ... by its plan. `small`: all blocks of this rank are.
  void note_blocks(const OperationId& operation, Collective collective, bool small);
  // A local rank has called the collective natively, with blocks that are not small.
  void larger_blocks(const GroupId& group, Collective collective);
  // A local rank has calls that the plan decides, though it has posted none.
  void join(WorldRank rank, const GroupId& group, const Members& members) { posted(rank, group, members, true); }
  // Two methods are to be tried in turn. Heeded from the communicator's first rank, at its service process.
  void ask_trial(WorldRank rank, const GroupId& group, const TrialRequest& request) {
    trials_.ask(rank, group, request);
  }
  // The decision of an earlier run, until a trial shows otherwise. Heeded as the above, where there is none yet.
  void recall(WorldRank rank, const GroupId& group, const CachedDecision& decision) {
    trials_.recall(rank, group, decision);
  }
  // The trial of that number costs too much: it ends, for the usual method. Heeded as the above.
  void give_up_trial(WorldRank rank, const GroupId& group, std::uint16_t trial) { trials_.give_up(rank, group, trial); }
  // A local rank has been through the trial of that number.
  void measured(WorldRank rank, const GroupId& group, std::uint16_t trial, const TrialTimes& times) {
    trials_.measured(rank, group, trial, times);
  }
  // A local rank has freed the communicator.
  void forget_group(WorldRank rank, const GroupId& group);
  // A local rank is gone.
  void drop_rank(WorldRank rank);

  // The suspension that this service process votes for: of every communicator, and of one beside that. One vote is
  // enough for busy and failing, small takes all. Ranks are held for a change as soon as it can be; one that cannot be
  // yet is tried again by retry_changes().
  void vote(const Suspended& everywhere) { agreement_.vote(everywhere); }
  void vote(const GroupId& group, const Suspended& suspended);
  [[nodiscard]] bool wants_retry() const { return agreement_.wants_retry(); }
  void retry_changes() { agreement_.retry(); }

  // A message of a peer's coordinator. False: malformed; nothing was changed and the caller drops the peer.
  [[nodiscard]] bool receive(SpId from, std::span<const std::byte> message);
  // A peer has been replaced by an incarnation that knows nothing, and can be reached: it is told again what it may
  // have lost, before any further change begins.
  void peer_restarted(SpId peer, Epoch epoch);
  // After a restart, of a communicator that a local rank has joined: `newest` is the newest plan that any of its ranks
  // has. Heeded at the leader: all go by it, a change that was under way has not happened, and trials end.
  void restore_plan(const GroupId& group, const PlanChange& newest);

 private:
  [[nodiscard]] bool claims_hold(SpId from, const Message& message);

  Context context_;
  Communicators communicators_{context_};
  Agreement agreement_{context_, communicators_};
  Trials trials_{context_, communicators_, agreement_};
  BlockSizes sizes_;
};

}  // namespace outrigger::steer
