#include "fabric/ucx/liveness.hpp"

#include <utility>

namespace outrigger::fabric::ucx {

void Liveness::tick(bool interested) {
  for (const auto& peer : peers_.all()) {
    if (peer == nullptr || peer->departed || !peer->is_known()) continue;
    if (!look_at(*peer, interested)) return;
  }
}

bool Liveness::look_at(Peer& peer, bool interested) {
  const bool heard =
      std::exchange(peer.heard, false) && !peer.broken;  // one channel of a broken one may still be heard
  // Silence may be the end of a job that others go on with; a lost node is certain, and ranks there may be waited for
  // by other means than ours.
  if (heard || (!interested && !peer.node_lost)) {
    peer.silent_turns = 0;
    return true;
  }
  ++peer.silent_turns;
  const bool gone = peer.node_lost || (peer.broken && peer.silent_turns >= 2);  // a farewell may be on the way
  if (gone || peer.silent_turns >= options_.turns_until_lost) {
    const char* how = peer.broken ? "has broken off the connection" : "does not answer";
    peers_.lose(peer, peer.fault != nullptr ? peer.fault : how);
    return false;
  }
  if (peer.silent_turns >= options_.turns_until_ping) channels_.say(peer, peers_.header(wire::Kind::ping));
  return true;
}

}  // namespace outrigger::fabric::ucx
