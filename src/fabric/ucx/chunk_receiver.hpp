// Puts received chunks to their places, for moves of this side and of peers.
//
// UCX writes mapped memory itself. Chunks for private memory, or for remote ranks, go through a fixed number of staging
// buffers, and wait at their source for one.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "fabric/ucx/transfers.hpp"

namespace outrigger::fabric::ucx {

class ChunkReceiver {
 public:
  ChunkReceiver(const WireOptions& options, NodeMemory& memory, Network& network, Peers& peers, Channels& channels,
                Transfers& transfers)
      : memory_(memory),
        network_(network),
        peers_(peers),
        channels_(channels),
        transfers_(transfers),
        staging_(options.receive_buffers, wire::kMaxChunkBytes) {}

  // A complete chunk, or a data message with the reason why there is none. For pulls: an open chunk of a local move.
  void arrived(Peer& peer, const wire::Header& header, std::span<const std::byte> bytes);
  // A chunk that waits at its source. `descriptor`: UCX's.
  void offered(Peer& peer, const wire::Header& header, void* descriptor);
  // Receives offers as long as there are buffers. False if there were none.
  [[nodiscard]] bool accept_offers();
  // The peer has been replaced: drops its offers. Receives in progress must end before the handshake with the
  // replacement (Peer::landing).
  void forget(const Peer& former);

  [[nodiscard]] std::uint64_t received_bytes() const { return received_bytes_; }
  // Before closing: no more chunks are received; until then UCX may still write.
  void release_offers();
  [[nodiscard]] bool receives() const { return !receipts_.empty(); }

 private:
  struct Offer {
    Peer* peer;
    wire::Header header;
    void* descriptor;
  };
  struct Receipt {
    Peer* peer;
    wire::Header header;
    std::shared_ptr<const void> hold;
    StagingBuffer staging;
    ChunkReceiver* receiver;
  };

  [[nodiscard]] bool accept(const Offer& offer);
  void receive(const Offer& offer, std::byte* place, std::unique_ptr<Receipt> receipt);
  // Destination of a chunk; nullopt if its move was cancelled or has ended.
  [[nodiscard]] std::optional<MemoryRef> place_of(const Peer& peer, const wire::Header& header);
  // Writes into the memory of a remote rank: placed() follows.
  void place_elsewhere(Peer& peer, const wire::Header& header, const MemoryRef& to, std::span<const std::byte> bytes,
                       std::shared_ptr<const void> hold);
  // A chunk is in place, or has failed: notifies the side that began the move.
  void placed(Peer& peer, const wire::Header& header, MoveStatus status);
  void received(Receipt& receipt, ucs_status_t status);
  void end_landing(Peer& peer);
  static void on_received(void* request, ucs_status_t status, std::size_t bytes, void* receipt);

  NodeMemory& memory_;
  Network& network_;
  Peers& peers_;
  Channels& channels_;
  Transfers& transfers_;
  StagingPool staging_;
  std::unordered_map<Receipt*, std::unique_ptr<Receipt>> receipts_;
  std::deque<Offer> offers_;
  std::uint64_t received_bytes_ = 0;
};

}  // namespace outrigger::fabric::ucx
