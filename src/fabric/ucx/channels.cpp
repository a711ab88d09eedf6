#include "fabric/ucx/channels.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace outrigger::fabric::ucx {
namespace {

// UCX puts together what is longer from pieces.
constexpr std::size_t kBatchBytes = 6000;

}  // namespace

void Channels::say_in_order(Peer& peer, wire::Header header, std::span<const std::byte> payload) {
  header.move = peer.messages_sent++;
  say(peer, header, payload);
}

void Channels::say(Peer& peer, const wire::Header& header, std::span<const std::byte> payload) {
  if (peer.is_gone()) return;
  if (!peer.outbox.empty() && peer.outbox.size() + wire::kFrameBytes + payload.size() > kBatchBytes) flush_outbox(peer);
  if (peer.outbox.empty()) speaking_.push_back(&peer);
  wire::append_framed(peer.outbox, wire::encode_wire(header), payload);
  ++peer.outbox_messages;
  busy_ = true;
}

bool Channels::flush_outboxes() {
  if (speaking_.empty()) return false;
  for (Peer* peer : std::exchange(speaking_, {})) flush_outbox(*peer);
  return true;
}

// Each call of the network costs more than what it carries here: several messages go as one.
void Channels::flush_outbox(Peer& peer) {
  if (peer.outbox.empty()) return;
  auto send = std::make_unique<Send>();
  send->payload = std::exchange(peer.outbox, {});
  const std::size_t messages = std::exchange(peer.outbox_messages, 0);
  std::span<const std::byte> bytes(send->payload);
  if (messages == 1) {
    std::ranges::copy(bytes.subspan(wire::kFrameBytes - wire::kHeaderBytes, wire::kHeaderBytes), send->header.begin());
    bytes = bytes.subspan(wire::kFrameBytes);
  } else {
    send->header = wire::encode_wire(peers_.header(wire::Kind::batch));
  }
  hand_over(peer, std::move(send), bytes.data(), bytes.size(), UCP_AM_SEND_FLAG_EAGER);
}

void Channels::send_chunk(Peer& peer, const wire::Header& header, const std::byte* bytes,
                          std::shared_ptr<const void> hold, StagingBuffer staging) {
  auto send = std::make_unique<Send>();
  send->header = wire::encode_wire(header);
  send->hold = std::move(hold);
  send->staging = std::move(staging);
  send->channel = Channel::data;
  send->chunk_bytes = header.bytes;
  const bool at_once =
      header.bytes <= (peer.moves_memory ? options_.rendezvous_above_bytes : options_.copied_chunk_bytes);
  hand_over(peer, std::move(send), bytes, header.bytes, at_once ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV);
}

ucp_ep_h Channels::endpoint(Peer& peer, Channel channel) {
  Peer::Connection& connection = channel == Channel::control ? peer.control : peer.data;
  if (!connection.endpoint) {
    Result<Endpoint> opened = Endpoint::open(network_.worker(channel), connection.address, peer.broken);
    if (!opened) {
      peer.broken = true;
      peers_.fail("node " + peer.node + ": " + opened.error());
      return nullptr;
    }
    connection.endpoint.emplace(std::move(opened).value());
    if (channel == Channel::data) note_route(peer, connection.endpoint->lanes());
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

void Channels::hand_over(Peer& peer, std::unique_ptr<Send> send, const std::byte* bytes, std::size_t count,
                         unsigned flags) {
  if (peer.is_gone()) return;
  const ucp_ep_h to = endpoint(peer, send->channel);
  if (to == nullptr) return;
  busy_ = true;
  send->peer = &peer;
  send->channels = this;
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = flags;
  parameters.cb.send = on_sent;
  parameters.user_data = send.get();
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(to, kMessageId, send->header.data(), send->header.size(), bytes, count, &parameters);
  if (UCS_PTR_IS_ERR(request)) peer.broken = true;
  if (!UCS_PTR_IS_PTR(request)) {  // gone already
    sent_bytes_ += send->chunk_bytes;
    return;
  }
  sending_bytes_ += send->chunk_bytes;
  if (send->channel == Channel::control) ++control_sends_;
  Send* key = send.get();
  sends_.emplace(key, std::move(send));
}

void Channels::on_sent(void* request, ucs_status_t status, void* send) {
  auto* done = static_cast<Send*>(send);
  if (status != UCS_OK && !done->channels->closing_) done->peer->broken = true;
  done->channels->sent(done);
  ucp_request_free(request);
}

void Channels::sent(Send* send) {
  if (send->channel == Channel::control) {
    assert(control_sends_ != 0 && "every message is taken by the network once");
    --control_sends_;
  }
  assert(sending_bytes_ >= send->chunk_bytes && "every chunk is taken by the network once");
  sending_bytes_ -= send->chunk_bytes;
  sent_bytes_ += send->chunk_bytes;
  sends_.erase(send);
}

}  // namespace outrigger::fabric::ucx
