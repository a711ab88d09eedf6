// What peers have asked for, and eager chunks, sent by turns.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "fabric/ucx/chunk_sender.hpp"

namespace outrigger::fabric::ucx {

class RequestServer {
 public:
  RequestServer(const WireOptions& options, Peers& peers, Channels& channels, ChunkSender& sender)
      : options_(options), peers_(peers), channels_(channels), sender_(sender) {}

  // A peer asks for a chunk.
  void requested(Peer& peer, const wire::Header& request);
  // The same, of several ranks' memory.
  void requested_reduced(Peer& peer, const wire::Header& request, std::span<const std::byte> payload);
  // A chunk of an eager block; those of the peer's block `number` are not sent any more: how many that were.
  void add_eager(Peer& peer, const wire::Header& chunk) { add(peer, Peer::Wanted{chunk, {}}); }
  // It has been replaced, and has asked for nothing any more.
  void forget(Peer& former) { std::erase(turns_, &former); }
  std::size_t withdraw_eager(Peer& peer, std::uint64_t number);

  // What can be done now. True when anything was.
  [[nodiscard]] bool answer_requests();

 private:
  // Unless there are too many.
  void add_request(Peer& peer, Peer::Wanted&& wanted);
  void add(Peer& peer, Peer::Wanted&& wanted);
  [[nodiscard]] bool answer(Peer& peer, const Peer::Wanted& wanted);
  [[nodiscard]] std::optional<MoveStatus> send(Peer& peer, const wire::Header& chunk, const Peer::Wanted& wanted);
  void refuse(Peer& peer, const wire::Header& chunk, MoveStatus status);

  const WireOptions& options_;
  Peers& peers_;
  Channels& channels_;
  ChunkSender& sender_;
  std::deque<Peer*> turns_;  // with something to_send
};

}  // namespace outrigger::fabric::ucx
