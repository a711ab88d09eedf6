#include "fabric/ucx/liveness.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

namespace outrigger::fabric::ucx {
namespace {

constexpr std::chrono::seconds kTickInterval{1};
constexpr std::uint32_t kTicksAfterBusiness = 8;  // more than a silent peer needs to count as lost

// Another process has its place.
bool is_stranger(const Peer& peer) {
  return !peer.handshake.knows_peer() && peer.handshake.has_wrong_proof();
}

// Doubles the interval each time, so that a slow peer has time to answer.
bool is_time_to_connect_anew(std::uint32_t unanswered_turns, std::uint32_t first) {
  return unanswered_turns % first == 0 && std::has_single_bit(unanswered_turns / first);
}

const char* how_it_went(const Peer& peer) {
  if (peer.fault != nullptr) return peer.fault;
  if (peer.node_lost) return "has lost its host";
  if (peer.broken) return "has disconnected";
  return is_stranger(peer) ? "does not prove that it belongs to this job" : "does not answer";
}

}  // namespace

void Liveness::look_after(Clock::time_point now, const Business& business, bool moves) {
  const bool due = now - ticked_ >= kTickInterval;
  // operations_open() is expensive, so it is called only if it can matter.
  if (business.posted || moves || ((due || ticks_left_ == 0) && business.operations_open())) {
    ticks_left_ = kTicksAfterBusiness;
  }
  if (!due) return;
  ticked_ = now;
  tick(ticks_left_ != 0);
  if (ticks_left_ != 0) --ticks_left_;
}

std::optional<Liveness::Clock::duration> Liveness::sleep_limit(Clock::time_point now) const {
  if (ticks_left_ == 0) return std::nullopt;
  return std::max(ticked_ + kTickInterval - now, Clock::duration::zero());
}

void Liveness::tick(bool interested) {
  for (const auto& peer : peers_.all()) {
    if (peer != nullptr) peer->handshake.allow_answers();
    if (peer == nullptr || peer->departed || !peer->is_known()) continue;
    if (!look_at(*peer, interested)) return;
  }
}

bool Liveness::look_at(Peer& peer, bool interested) {
  if (!peer.handshake.is_open()) {
    peer.control.cut =
        peer.control.cut || is_time_to_connect_anew(peer.unanswered_turns, options_.turns_until_connected_anew);
    peer.reconnect();
  }
  peer.broken = peer.broken || peer.control.cut || peer.data.cut;
  const bool heard = std::exchange(peer.heard, false) && !peer.broken;  // a broken peer may still send on one channel
  // Silence does not matter if nothing waits for the peer: the job may end soon. A lost node always matters, as ranks
  // may wait for it outside Outrigger.
  if (heard || (!interested && !peer.node_lost)) {
    peer.silent_turns = peer.unanswered_turns = 0;
    return true;
  }
  ++peer.silent_turns;
  ++peer.unanswered_turns;
  // Its node may live and replace it, unless the peer broke the protocol.
  const bool may_be_replaced = options_.on_silent && peer.fault == nullptr;
  const bool gone =
      peer.broken && !may_be_replaced && (peer.node_lost || peer.silent_turns >= 2);  // a farewell may be on the way
  const bool connecting = !peer.met && !peer.broken && !is_stranger(peer);
  const std::uint32_t most = connecting       ? options_.turns_until_not_met
                             : peer.node_lost ? options_.turns_until_host_lost
                                              : options_.turns_until_lost;
  if (gone || peer.silent_turns >= most || peer.unanswered_turns >= options_.turns_until_given_up) {
    peers_.lose(peer, how_it_went(peer));
    return false;
  }
  if (may_be_replaced && (peer.broken || peer.silent_turns >= 2)) {
    peer.asked_for = true;
    options_.on_silent(peer.sp);
  }
  if (peer.silent_turns < options_.turns_until_ping) return true;
  if (peer.handshake.is_open()) {
    channels_.say(peer, peers_.header(wire::Kind::ping));
  } else {
    channels_.call(peer);
  }
  return true;
}

}  // namespace outrigger::fabric::ucx
