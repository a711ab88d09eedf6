#include "fabric/ucx/request_server.hpp"

#include <cassert>
#include <utility>
#include <vector>

namespace outrigger::fabric::ucx {
namespace {

// A peer's eager chunks join its messages if they have at most so many bytes together.
constexpr std::uint64_t kJoiningBytes = 32U << 10;

bool may_join_messages(const Peer& peer) {
  if (peer.moves_memory || peer.outbox.empty()) return false;
  std::uint64_t bytes = 0;
  for (const Peer::Wanted& wanted : peer.to_send) {
    bytes += wanted.chunk.bytes;
    if (wanted.chunk.kind != wire::Kind::eager_chunk || bytes > kJoiningBytes) return false;
  }
  return true;
}

bool is_asked_for(wire::Kind kind) {
  return kind == wire::Kind::request || kind == wire::Kind::reduced_request;
}

}  // namespace

void RequestServer::requested(Peer& peer, const wire::Header& request) {
  add_request(peer, Peer::Wanted{request, {}});
}

void RequestServer::requested_reduced(Peer& peer, const wire::Header& request, std::span<const std::byte> payload) {
  std::optional<wire::OtherOperands> operands = decoded<wire::OtherOperands>(payload);
  if (!operands || request.bytes % operands->reduction.element_bytes() != 0) {
    return peer.break_off("sent an invalid reduction request");
  }
  add_request(peer, Peer::Wanted{request, std::move(*operands)});
}

void RequestServer::add_request(Peer& peer, Peer::Wanted&& wanted) {
  if (peer.requests >= options_.requests_of_peer) return peer.break_off("sent too many requests");
  ++peer.requests;
  add(peer, std::move(wanted));
}

void RequestServer::add(Peer& peer, Peer::Wanted&& wanted) {
  peer.to_send.push_back(std::move(wanted));
  if (!std::exchange(peer.in_sending_turn, true)) turns_.push_back(&peer);
}

std::size_t RequestServer::withdraw_eager(Peer& peer, std::uint64_t number) {
  return std::erase_if(peer.to_send, [&](const Peer::Wanted& wanted) {
    return wanted.chunk.kind == wire::Kind::eager_chunk && wanted.chunk.move == number;
  });
}

void RequestServer::join_messages() {
  for (Peer* peer : turns_) {
    if (!may_join_messages(*peer)) continue;
    for (const Peer::Wanted& wanted : std::exchange(peer->to_send, {})) {
      const wire::Header chunk = answer_to(wanted.chunk);
      const MoveStatus status = sender_.say(*peer, chunk, wanted.chunk.memory);
      if (status != MoveStatus::ok) refuse(*peer, chunk, status);
    }
  }
}

// Sends one chunk to each peer in turn, because the network sends in the order of submission. Whole blocks in sequence
// would tie this node's link to one peer, whose own link may be busy.
bool RequestServer::answer_requests() {
  bool any = false;
  while (!turns_.empty()) {
    Peer& peer = *turns_.front();
    if (!peer.to_send.empty()) {
      const Peer::Wanted& wanted = peer.to_send.front();
      if (!answer(peer, wanted)) return any;
      if (is_asked_for(wanted.chunk.kind)) {
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

wire::Header RequestServer::answer_to(const wire::Header& request) const {
  wire::Header chunk = peers_.header(is_asked_for(request.kind) ? wire::Kind::data : request.kind);
  chunk.move = request.move;
  chunk.offset = request.offset;
  chunk.bytes = request.bytes;
  return chunk;
}

// False: no buffer is free.
bool RequestServer::answer(Peer& peer, const Peer::Wanted& wanted) {
  const wire::Header chunk = answer_to(wanted.chunk);
  const std::optional<MoveStatus> begun = send(peer, chunk, wanted);
  if (!begun) return false;
  if (*begun != MoveStatus::ok) refuse(peer, chunk, *begun);
  return true;
}

std::optional<MoveStatus> RequestServer::send(Peer& peer, const wire::Header& chunk, const Peer::Wanted& wanted) {
  const auto unread = [this](Peer& reader, const wire::Header& failed, MoveStatus status) {
    refuse(reader, failed, status);
  };
  if (wanted.chunk.kind == wire::Kind::reduced_request) {
    ReduceRanges ranges{wanted.operands.reduction, {wanted.chunk.memory}, {}};
    const std::vector<MemoryRef>& others = wanted.operands.others;
    ranges.operands.insert(ranges.operands.end(), others.begin(), others.end());
    return sender_.send_reduced(peer, chunk, ranges, unread);
  }
  return sender_.send(peer, chunk, wanted.chunk.memory, unread);
}

void RequestServer::refuse(Peer& peer, const wire::Header& chunk, MoveStatus status) {
  wire::Header refusal = chunk;
  refusal.status = static_cast<std::uint16_t>(status);
  channels_.say(peer, refusal);
}

}  // namespace outrigger::fabric::ucx
