// Sends requested chunks and eager chunks to peers, round-robin.
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

  // A peer requests a chunk.
  void requested(Peer& peer, const wire::Header& request);
  // The same for a reduction of several ranks' memory.
  void requested_reduced(Peer& peer, const wire::Header& request, std::span<const std::byte> payload);
  // Sends a chunk of an eager block.
  void add_eager(Peer& peer, const wire::Header& chunk) { add(peer, Peer::Wanted{chunk, {}}); }
  // The peer has been replaced: drops its requests.
  void forget(Peer& former) { std::erase(turns_, &former); }
  // Drops the unsent chunks of an eager block and returns their number.
  std::size_t withdraw_eager(Peer& peer, std::uint64_t number);

  // If processors copy: adds eager chunks to the messages that wait for their peer, unless they would delay the
  // messages that follow. Each network message costs a system call at both ends and wakes its receiver.
  void join_messages();
  // Sends all that is possible now. False if that was nothing.
  [[nodiscard]] bool answer_requests();

 private:
  // Adds a request, unless there are too many.
  void add_request(Peer& peer, Peer::Wanted&& wanted);
  void add(Peer& peer, Peer::Wanted&& wanted);
  [[nodiscard]] wire::Header answer_to(const wire::Header& request) const;
  [[nodiscard]] bool answer(Peer& peer, const Peer::Wanted& wanted);
  [[nodiscard]] std::optional<MoveStatus> send(Peer& peer, const wire::Header& chunk, const Peer::Wanted& wanted);
  void refuse(Peer& peer, const wire::Header& chunk, MoveStatus status);

  const WireOptions& options_;
  Peers& peers_;
  Channels& channels_;
  ChunkSender& sender_;
  std::deque<Peer*> turns_;  // with something in to_send
};

}  // namespace outrigger::fabric::ucx
