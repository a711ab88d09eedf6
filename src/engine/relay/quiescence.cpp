#include "engine/relay/quiescence.hpp"

#include "engine/core/operation.hpp"

namespace outrigger::engine {

void Quiescence::ask_all() {
  for (const Membership::Peer& peer : operation_.membership().peers()) {
    if (unanswered_.insert(peer.sp).second) operation_.context.send(peer.sp, operation_.id(), peer::Quiesce{true});
  }
}

void Quiescence::on_answer(SpId from) {
  if (unanswered_.erase(from) == 0 || !reached()) return;
  while (Suspension* waiting = waiting_.pop_front()) operation_.context.scheduler.make_ready(*waiting);
  for (const std::unique_ptr<LocalRank>& rank : operation_.ranks.all()) rank->notify();
}

// A new incarnation may not have received the question.
void Quiescence::ask_again(SpId peer) {
  if (unanswered_.contains(peer)) operation_.context.send(peer, operation_.id(), peer::Quiesce{true});
}

void Quiescence::answer(SpId peer) {
  owed_.erase(peer);
  operation_.context.send(peer, operation_.id(), peer::Quiesce{false});
}

}  // namespace outrigger::engine
