#include "fabric/ucx/receiver.hpp"

#include <cassert>
#include <optional>
#include <utility>

namespace outrigger::fabric::ucx {
namespace {

constexpr const char* kMalformed = "sent a malformed message";

}  // namespace

// UCX may call back while it closes endpoints, about peers that are destroyed here.
ucs_status_t Receiver::arrived(Channel channel, std::span<const std::byte> bytes, void* data, std::size_t count,
                               bool rendezvous) {
  if (channels_.closing()) return UCS_OK;
  if (proof::looks_like_handshake(bytes)) {
    if (channel == Channel::control && count == 0) take_handshake(bytes);
    return UCS_OK;
  }
  const std::optional<wire::Shown> shown = decoded<wire::Shown>(bytes);
  Peer* peer = shown ? peers_.sender_of(*shown) : nullptr;
  if (peer == nullptr || peer->fault != nullptr) return UCS_OK;
  peer->heard = true;
  if (peer->link != nullptr) peer->link->received(bytes.size() + count);
  return take(channel, *peer, shown->header, data, count, rendezvous);
}

// The reply goes to the peer named in the handshake, at its address in the job map: the sender is not proven yet.
void Receiver::take_handshake(std::span<const std::byte> bytes) {
  const std::optional<proof::HandshakeMessage> message = decoded<proof::HandshakeMessage>(bytes);
  Peer* peer = message ? peers_.named(message->from) : nullptr;
  if (peer == nullptr) return;
  if (message->from_epoch > peer->epoch) peer->called_by_next = true;
  if (peer->fault != nullptr || peer->is_gone() || peer->held_back) return;
  const bool knew = peer->handshake.knows_peer();
  const bool was_open = peer->handshake.is_open();
  const std::optional<proof::HandshakeMessage> reply = peer->handshake.receive(*message);
  if (peer->handshake.knows_peer() && !knew) peer->met = peer->heard = true;
  if (reply) channels_.send_handshake(*peer, *reply);
  if (peer->handshake.is_open() && !was_open) channels_.peer_opened(*peer);
}

ucs_status_t Receiver::take(Channel channel, Peer& peer, const wire::Header& header, void* data, std::size_t count,
                            bool rendezvous) {
  const std::span<const std::byte> payload(static_cast<const std::byte*>(data), rendezvous ? 0 : count);
  const bool eager = header.kind == wire::Kind::eager_chunk;
  const bool chunk = header.kind == wire::Kind::data || header.kind == wire::Kind::push || eager;
  if (!chunk) {
    rendezvous ? peer.break_off(kMalformed) : take_control(peer, header, payload);
    return UCS_OK;
  }
  const bool refusal = header.kind != wire::Kind::push && header.status != 0 && count == 0;
  const bool right_channel = channel == Channel::data || eager;
  if (!refusal && (!right_channel || count != header.bytes || header.status != 0)) {
    peer.break_off(kMalformed);
    return UCS_OK;
  }
  if (eager) {
    rendezvous ? peer.break_off(kMalformed) : eager_.chunk_arrived(peer, header, payload);
    return UCS_OK;
  }
  if (header.kind == wire::Kind::data) {
    Transfer* transfer = transfers_.find(peer, header, Transfers::Way::pull);
    // Not a local move any more, or a repeated chunk.
    if (transfer == nullptr || transfer->open_chunk(header.offset)->state != ChunkState::awaited) return UCS_OK;
  }
  if (!rendezvous) {
    chunks_.arrived(peer, header, payload);
    return UCS_OK;
  }
  chunks_.offered(peer, header, data);
  return UCS_INPROGRESS;
}

void Receiver::take_control(Peer& peer, const wire::Header& header, std::span<const std::byte> payload) {
  switch (header.kind) {
    case wire::Kind::message:
    case wire::Kind::eager: return take_numbered(peer, header, payload);
    case wire::Kind::batch: return take_batch(peer, payload);
    case wire::Kind::request: return server_.requested(peer, header);
    case wire::Kind::reduced_request: return server_.requested_reduced(peer, header, payload);
    case wire::Kind::stored:
      if (transfers_.find(peer, header, Transfers::Way::push) != nullptr) {
        transfers_.chunk_ended(header, static_cast<MoveStatus>(header.status));
      }
      return;
    case wire::Kind::ping: return channels_.say(peer, peers_.header(wire::Kind::pong));
    case wire::Kind::bye: return take_farewell(peer, header);
    default: return;
  }
}

void Receiver::take_batch(Peer& peer, std::span<const std::byte> batch) {
  while (!batch.empty()) {
    const std::optional<wire::Framed> next = take_first<wire::Framed>(batch);
    if (!next || next->header.from != peer.sp) return peer.break_off(kMalformed);
    // Nothing is written through this pointer: only eager chunks have bytes on this channel, and they are read.
    auto* data = const_cast<std::byte*>(next->payload.data());
    (void)take(Channel::control, peer, next->header, data, next->payload.size(), false);
    if (peer.fault != nullptr) return;
  }
}

void Receiver::take_farewell(Peer& peer, const wire::Header& header) {
  peer.node_lost = header.status != static_cast<std::uint16_t>(MoveStatus::ok);
  if (peer.node_lost) {  // or it has lost contact, and has been replaced there
    peer.broken = true;
    return;
  }
  peer.departed = true;
  transfers_.give_up(peer);
}

// UCX keeps the order only if all messages use one rail.
void Receiver::take_numbered(Peer& peer, const wire::Header& header, std::span<const std::byte> payload) {
  const std::uint64_t number = header.move;
  auto& early = peer.early_messages;
  if (number < peer.messages_taken || early.size() >= options_.waiting_messages) return peer.break_off(kMalformed);
  if (number > peer.messages_taken) {
    early.try_emplace(number, Peer::Ordered{header, {payload.begin(), payload.end()}});
    return;
  }
  take_next(peer, Peer::Ordered{header, {payload.begin(), payload.end()}});
  ++peer.messages_taken;
  for (auto next = early.begin(); next != early.end() && next->first == peer.messages_taken; ++peer.messages_taken) {
    take_next(peer, std::move(next->second));
    next = early.erase(next);
  }
  assert((early.empty() || early.begin()->first > peer.messages_taken) && "an earlier message is missing");
}

void Receiver::take_next(Peer& peer, Peer::Ordered&& next) {
  if (next.header.kind == wire::Kind::eager) return eager_.notice_arrived(peer, next);
  inbox_.push_back(Inbound{peer.sp, std::move(next.payload)});
}

bool Receiver::next_message(SpId& from, std::vector<std::byte>& message) {
  if (inbox_.empty()) return false;
  from = inbox_.front().from;
  message = std::move(inbox_.front().message);
  inbox_.pop_front();
  return true;
}

}  // namespace outrigger::fabric::ucx
