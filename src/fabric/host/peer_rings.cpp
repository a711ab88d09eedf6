#include "fabric/host/peer_rings.hpp"

#include <unistd.h>

#include <cassert>
#include <cstdint>
#include <utility>

namespace outrigger::fabric {

void PeerRings::add(SpId peer, Mapping ring, UniqueFd doorbell) {
  ByteRingWriter writer(ring.base());
  peers_.insert_or_assign(peer, Peer{std::move(ring), writer, std::move(doorbell), {}});
}

void PeerRings::send(SpId to, std::span<const std::byte> message) {
  const auto found = peers_.find(to);
  assert(found != peers_.end() && message.size() <= kByteRingMaxMessage &&
         "to one of this node, and no longer than a ring takes");
  Peer& peer = found->second;
  if (peer.waiting.empty() && peer.ring.write(message)) {
    wake(peer);
    return;
  }
  peer.waiting.emplace_back(message.begin(), message.end());
  ++waiting_;
}

bool PeerRings::send_waiting() {
  bool sent = false;
  if (waiting_ == 0) return sent;
  for (auto& [id, peer] : peers_) sent |= send_waiting_to(peer);
  return sent;
}

bool PeerRings::send_waiting_to(Peer& peer) {
  bool sent = false;
  while (!peer.waiting.empty() && peer.ring.write(peer.waiting.front())) {
    peer.waiting.pop_front();
    --waiting_;
    sent = true;
  }
  if (sent) wake(peer);
  return sent;
}

void PeerRings::wake(Peer& peer) {
  if (!peer.ring.reader_sleeps()) return;
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the peer is being woken anyway.
  [[maybe_unused]] const ssize_t written = ::write(peer.doorbell.get(), &one, sizeof(one));
}

}  // namespace outrigger::fabric
