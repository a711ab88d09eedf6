// Chunks that come, for moves of this side and of peers, put to their place.
//
// UCX writes mapped memory itself; what is for private memory, or for ranks elsewhere, goes through a fixed number of
// staging buffers, and waits at its source for one.
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

  // A chunk that is here as a whole, or a data message that says why there is none. Of pulls: an open one of ours.
  void arrived(Peer& peer, const wire::Header& header, std::span<const std::byte> bytes);
  // One that waits at its source. `descriptor`: UCX's.
  void offered(Peer& peer, const wire::Header& header, void* descriptor);
  // What there are buffers for. True when there was any.
  [[nodiscard]] bool accept_offers();
  // It has been replaced: what it has offered is not taken any more. What is being written already has to come to rest
  // before the one in its place is greeted (Peer::landing).
  void forget(const Peer& former);

  [[nodiscard]] std::uint64_t received_bytes() const { return received_bytes_; }
  // To close: no more is received; until then UCX may still write.
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
  // Where a chunk goes; nothing: the move that it belongs to was cancelled, or has ended.
  [[nodiscard]] std::optional<MemoryRef> place_of(const Peer& peer, const wire::Header& header);
  // Into the memory of a rank elsewhere: placed() follows.
  void place_elsewhere(Peer& peer, const wire::Header& header, const MemoryRef& to, std::span<const std::byte> bytes,
                       std::shared_ptr<const void> hold);
  // A chunk is in its place, or not: tells whoever began the move.
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
