#include "fabric/ucx/channels.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace outrigger::fabric::ucx {
namespace {

// Where the network moves memory, UCX assembles longer messages from fragments.
constexpr std::size_t kBatchBytes = 6000;

}  // namespace

std::uint64_t Channels::batch_bytes(const Peer& peer) const {
  return peer.moves_memory ? kBatchBytes : options_.copied_chunk_bytes;
}

void Channels::say_in_order(Peer& peer, wire::Header header, std::span<const std::byte> payload) {
  header.move = peer.messages_sent++;
  say(peer, header, payload);
}

void Channels::say(Peer& peer, const wire::Header& header, std::span<const std::byte> payload) {
  peer.wanted = true;
  if (peer.is_gone()) return;
  const wire::Framed framed{header, payload};
  if (!peer.outbox.empty() && peer.outbox.size() + encoded_bytes(framed) > batch_bytes(peer)) flush_outbox(peer);
  if (peer.outbox.empty()) speaking_.push_back(&peer);
  append(peer.outbox, framed);
  ++peer.outbox_messages;
  busy_ = true;
}

bool Channels::flush_outboxes() {
  const bool sent_handshakes = flush_handshakes();
  if (speaking_.empty()) return sent_handshakes;
  for (Peer* peer : std::exchange(speaking_, {})) flush_outbox(*peer);
  return true;
}

// A network call costs more than its contents, so several messages go as one.
void Channels::flush_outbox(Peer& peer) {
  if (peer.outbox.empty()) return;
  auto send = std::make_unique<Send>();
  send->payload = std::exchange(peer.outbox, {});
  const std::size_t messages = std::exchange(peer.outbox_messages, 0);
  send->bytes = send->payload;
  send->flags = UCP_AM_SEND_FLAG_EAGER;
  const auto only = messages == 1 ? take_first<wire::Framed>(send->bytes) : std::nullopt;
  if (only) {
    send->header = only->header;
    send->bytes = only->payload;
  } else {
    send->header = peers_.header(wire::Kind::batch);
  }
  hand_over(peer, std::move(send));
}

void Channels::send_chunk(Peer& peer, const wire::Header& header, const std::byte* bytes,
                          std::shared_ptr<const void> hold, StagingBuffer staging) {
  auto send = std::make_unique<Send>();
  send->header = header;
  send->hold = std::move(hold);
  send->staging = std::move(staging);
  send->channel = Channel::data;
  send->chunk_bytes = header.bytes;
  const bool at_once =
      header.bytes <= (peer.moves_memory ? options_.rendezvous_above_bytes : options_.copied_chunk_bytes);
  send->bytes = std::span(bytes, header.bytes);
  send->flags = at_once ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV;
  hand_over(peer, std::move(send));
}

bool Channels::learn_route(Peer& peer) {
  peer.wanted = true;
  return endpoint(peer, Channel::control) != nullptr;
}

void Channels::call(Peer& peer) {
  if (peer.held_back) return;
  if (const std::optional<proof::HandshakeMessage> message = peer.handshake.call()) send_handshake(peer, *message);
}

void Channels::send_handshake(Peer& peer, const proof::HandshakeMessage& message) {
  handshakes_.emplace_back(&peer, message);
  busy_ = true;
}

// Not from within UCX's calls of ours: connections may have to be made.
bool Channels::flush_handshakes() {
  if (handshakes_.empty() && opened_.empty()) return false;
  for (const auto& [peer, message] : std::exchange(handshakes_, {})) {
    if (peer->is_gone()) continue;
    auto send = std::make_unique<Send>();
    send->shown = encoded(message);
    send->flags = UCP_AM_SEND_FLAG_EAGER;
    transmit(*peer, std::move(send));
  }
  for (Peer* peer : std::exchange(opened_, {})) {
    peer->reconnect();  // the peer called on a connection of its own
    send_held(*peer);
  }
  return true;
}

void Channels::peer_opened(Peer& peer) {
  opened_.push_back(&peer);
  busy_ = true;
}

void Channels::send_held(Peer& peer) {
  const auto held = held_.sends.extract(&peer);
  if (held.empty()) return;
  for (auto& send : held.mapped()) {
    under_way_.ended(*send);
    hand_over(peer, std::move(send));
  }
}

// The network reports the end of messages in flight there.
void Channels::forget(const Peer& former) {
  const auto held = held_.sends.extract(&former);
  if (held.empty()) return;
  for (const auto& send : held.mapped()) under_way_.ended(*send);
}

bool Channels::all_taken() const {
  return sends_.empty() && std::ranges::all_of(held_.sends, [](const auto& held) { return held.first->is_gone(); });
}

ucp_ep_h Channels::endpoint(Peer& peer, Channel channel) {
  Peer::Connection& connection = channel == Channel::control ? peer.control : peer.data;
  if (!connection.endpoint) {
    Result<Endpoint> opened = Endpoint::open(network_.worker(channel), connection.address, connection.cut);
    if (!opened) {
      if (!peer.is_known()) return nullptr;  // an answer to a call in its name
      if (!peer.handshake.is_open()) {       // the next call may do better
        peer.unreachable = opened.error();
        // Started while this node was cut off: peers use an address that never worked.
        if (network_.has_missed_devices())
          peers_.begin_anew("was started while the network was down, so has no connection", peer);
        return nullptr;
      }
      peer.broken = true;
      peer.unreachable = opened.error();
      if (!options_.on_silent) peers_.lose(peer, {});  // else its node may have it replaced
      return nullptr;
    }
    connection.endpoint.emplace(std::move(opened).value());
    peer.unreachable.clear();
    if (channel == Channel::control) note_route(peer, connection.endpoint->lanes());
  }
  return connection.endpoint->get();
}

void Channels::note_route(Peer& peer, const Lanes& lanes) {
  peer.moves_memory = options_.moves_memory.value_or(!lanes.memory.empty());
  const WireRoute route = route_over(lanes);
  if (std::ranges::find(routes_, route) != routes_.end()) return;
  routes_.push_back(route);
  if (options_.on_route) options_.on_route(route);
}

void Channels::hand_over(Peer& peer, std::unique_ptr<Send> send) {
  if (peer.is_gone()) return;
  busy_ = true;
  if (!peer.handshake.is_open() || held_.any_for(peer)) {
    under_way_.begun(*send);
    if (held_.add(peer, std::move(send))) call(peer);
    return;
  }
  send->shown = encoded(wire::Shown{send->header, peer.handshake.token_out()});
  transmit(peer, std::move(send));
}

bool Channels::Held::add(const Peer& peer, std::unique_ptr<Send> send) {
  auto& of_peer = sends[&peer];
  of_peer.push_back(std::move(send));
  return of_peer.size() == 1;
}

void Channels::transmit(Peer& peer, std::unique_ptr<Send> send) {
  const ucp_ep_h to = endpoint(peer, send->channel);
  if (to == nullptr) return;
  send->peer = &peer;
  send->connection = peer.control.number;
  send->channels = this;
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = send->flags;
  parameters.cb.send = on_sent;
  parameters.user_data = send.get();
  const ucs_status_ptr_t request = ucp_am_send_nbx(to, kMessageId, send->shown.data(), send->shown.size(),
                                                   send->bytes.data(), send->bytes.size(), &parameters);
  if (UCS_PTR_IS_ERR(request)) {
    peer.note_failure(send->connection);
  } else if (peer.link != nullptr) {
    peer.link->sent(send->shown.size() + send->bytes.size());
  }
  if (!UCS_PTR_IS_PTR(request)) {  // sent already
    sent_bytes_ += send->chunk_bytes;
    return;
  }
  under_way_.begun(*send);
  Send* key = send.get();
  sends_.emplace(key, std::move(send));
}

void Channels::UnderWay::begun(const Send& send) {
  chunk_bytes += send.chunk_bytes;
  if (send.channel == Channel::control) ++control_sends;
}

void Channels::UnderWay::ended(const Send& send) {
  if (send.channel == Channel::control) {
    assert(control_sends != 0 && "every message is taken by the network once");
    --control_sends;
  }
  assert(chunk_bytes >= send.chunk_bytes && "every chunk is taken by the network once");
  chunk_bytes -= send.chunk_bytes;
}

void Channels::on_sent(void* request, ucs_status_t status, void* send) {
  auto* done = static_cast<Send*>(send);
  if (status != UCS_OK && !done->channels->closing_) done->peer->note_failure(done->connection);
  done->channels->sent(done);
  ucp_request_free(request);
}

void Channels::sent(Send* send) {
  under_way_.ended(*send);
  sent_bytes_ += send->chunk_bytes;
  sends_.erase(send);
}

}  // namespace outrigger::fabric::ucx
