#include "fabric/ucx/request_server.hpp"

#include <cassert>
#include <utility>

namespace outrigger::fabric::ucx {

void RequestServer::requested(Peer& peer, const wire::Header& request) {
  if (peer.requests >= options_.requests_of_peer) return peer.break_off("asks for more than it may");
  ++peer.requests;
  add(peer, request);
}

void RequestServer::add(Peer& peer, const wire::Header& request) {
  peer.to_send.push_back(request);
  if (!std::exchange(peer.in_sending_turn, true)) turns_.push_back(&peer);
}

std::size_t RequestServer::withdraw_eager(Peer& peer, std::uint64_t number) {
  return std::erase_if(peer.to_send, [&](const wire::Header& request) {
    return request.kind == wire::Kind::eager_chunk && request.move == number;
  });
}

// A chunk for each peer in turn. What the network has taken leaves in the order in which it came: whole blocks one
// after the other would keep this node's link busy with one peer, whose own link others fill meanwhile, and the rest
// idle.
bool RequestServer::answer_requests() {
  bool any = false;
  while (!turns_.empty()) {
    Peer& peer = *turns_.front();
    if (!peer.to_send.empty()) {
      const wire::Header& request = peer.to_send.front();
      if (!answer(peer, request)) return any;
      if (request.kind == wire::Kind::request) {
        assert(peer.requests != 0 && "every request is answered once");
        --peer.requests;
      }
      peer.to_send.pop_front();
      any = true;
    }
    turns_.pop_front();
    peer.in_sending_turn = !peer.to_send.empty();
    if (peer.in_sending_turn) turns_.push_back(&peer);
  }
  return any;
}

// False: no buffer now.
bool RequestServer::answer(Peer& peer, const wire::Header& request) {
  wire::Header chunk = peers_.header(request.kind == wire::Kind::request ? wire::Kind::data : request.kind);
  chunk.move = request.move;
  chunk.offset = request.offset;
  chunk.bytes = request.bytes;
  const auto unread = [this](Peer& reader, const wire::Header& failed, MoveStatus status) {
    refuse(reader, failed, status);
  };
  const std::optional<MoveStatus> begun = sender_.send(peer, chunk, request.memory, unread);
  if (!begun) return false;
  if (*begun != MoveStatus::ok) refuse(peer, chunk, *begun);
  return true;
}

void RequestServer::refuse(Peer& peer, const wire::Header& chunk, MoveStatus status) {
  wire::Header refusal = chunk;
  refusal.status = static_cast<std::uint16_t>(status);
  channels_.say(peer, refusal);
}

}  // namespace outrigger::fabric::ucx
