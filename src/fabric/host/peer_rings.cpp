#include "fabric/host/peer_rings.hpp"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

namespace outrigger::fabric {
namespace {

constexpr std::uint32_t kMessagesPerTurn = 64;  // of one peer, before the next one's turn
constexpr std::chrono::milliseconds kRetry{1};  // while a peer's ring is full

}  // namespace

Status PeerRings::add(SpId number, Mapping outbound, Mapping inbound, UniqueFd doorbell) {
  if (!valid_byte_ring(outbound.base()) || !valid_byte_ring(inbound.base())) {
    return Error{"the ring to service process " + std::to_string(number.value()) + " is invalid"};
  }
  const ByteRingWriter writer(outbound.base());
  const ByteRingReader reader(inbound.base());
  if (number.value() >= peers_.size()) peers_.resize(std::size_t{number.value()} + 1);
  if (const auto& replaced = peers_[number.value()]) waiting_ -= replaced->waiting.size();
  peers_[number.value()] =
      std::make_unique<Peer>(Peer{std::move(outbound), std::move(inbound), writer, reader, std::move(doorbell), {}});
  if (sleeping_) peers_[number.value()]->reader.set_sleeping(true);
  return Done{};
}

bool PeerRings::all_here() const {
  return std::ranges::all_of(peers_, [](const auto& peer) { return peer == nullptr || peer->writer.reader_is_here(); });
}

void PeerRings::send(SpId to, std::span<const std::byte> message) {
  const std::uint32_t number = to.value() - first_;
  assert(message.size() <= kByteRingMaxMessage && "the message fits in a ring");
  if (number >= peers_.size() || peers_[number] == nullptr) return;
  Peer& peer = *peers_[number];
  if (peer.waiting.empty() && peer.writer.write(message)) return ring_doorbell(peer);
  peer.waiting.emplace_back(message.begin(), message.end());
  ++waiting_;
}

bool PeerRings::progress() {
  bool sent = false;
  if (waiting_ == 0) return sent;
  for (const auto& peer : peers_) {
    if (peer != nullptr) sent |= send_waiting_to(*peer);
  }
  return sent;
}

bool PeerRings::send_waiting_to(Peer& peer) {
  bool sent = false;
  while (!peer.waiting.empty() && peer.writer.write(peer.waiting.front())) {
    assert(waiting_ != 0 && "each message waits once");
    peer.waiting.pop_front();
    --waiting_;
    sent = true;
  }
  if (sent) ring_doorbell(peer);
  return sent;
}

void PeerRings::ring_doorbell(Peer& peer) {
  if (!peer.writer.reader_sleeps()) return;
  const std::uint64_t one = 1;
  // Fails only if the counter is full, and then the peer is being woken already.
  [[maybe_unused]] const ssize_t written = ::write(peer.doorbell.get(), &one, sizeof(one));
}

bool PeerRings::receive(SpId& from, std::vector<std::byte>& message) {
  for (; turn_ < peers_.size(); ++turn_, taken_ = 0) {
    if (peers_[turn_] == nullptr || taken_ == kMessagesPerTurn) continue;
    const ByteRingReader::Event event = peers_[turn_]->reader.read(message);
    if (event == ByteRingReader::Event::empty) continue;
    from = SpId{first_ + static_cast<std::uint32_t>(turn_)};
    if (event == ByteRingReader::Event::message) {
      ++taken_;
      return true;
    }
    if (!failure_)
      failure_ = PortFailure{"service process " + std::to_string(from.value()) + " sent a malformed message"};
  }
  turn_ = 0;
  return false;
}

bool PeerRings::arm() {
  sleeping_ = true;
  bool empty = true;
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    peer->reader.set_sleeping(true);
    empty = empty && peer->reader.empty();
  }
  return empty;
}

void PeerRings::wake_up() {
  if (!std::exchange(sleeping_, false)) return;
  for (const auto& peer : peers_) {
    if (peer != nullptr) peer->reader.set_sleeping(false);
  }
}

std::optional<Port::Clock::duration> PeerRings::sleep_limit(Clock::time_point /*now*/) const {
  if (waiting_ == 0) return std::nullopt;
  return kRetry;
}

}  // namespace outrigger::fabric
