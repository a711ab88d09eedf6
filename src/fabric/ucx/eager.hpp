// Blocks that are sent before they are requested: outgoing and incoming.
//
// Saves the round trip of a request if a peer has room for unrequested bytes. Room is a fixed number of bytes, which a
// block occupies until it is withdrawn. If the network moves memory, only small blocks are sent this way.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "fabric/ucx/request_server.hpp"
#include "fabric/ucx/transfers.hpp"

namespace outrigger::fabric::ucx {

// Outgoing blocks.
class EagerSender {
 public:
  EagerSender(const WireOptions& options, NodeMemory& memory, Peers& peers, Channels& channels, RequestServer& server)
      : options_(options), memory_(memory), peers_(peers), channels_(channels), server_(server) {}

  // See BlockMover.
  void send(const BlockId& id, const Block& from, Peer& reader);
  void withdraw(const BlockId& id);
  // The peer has been replaced: its eager bytes are lost, and its replacement may get them again.
  void forget(const Peer& former);

 private:
  struct Sent {
    Peer* reader;
    std::uint64_t number;
    std::uint64_t charge_bytes;
  };
  // The number of bytes of a block of `bytes` that may be sent to this peer now.
  [[nodiscard]] std::uint64_t bytes_allowed(const Peer& reader, std::uint64_t bytes) const;

  const WireOptions& options_;
  NodeMemory& memory_;
  Peers& peers_;
  Channels& channels_;
  RequestServer& server_;
  std::unordered_map<BlockId, Sent> sent_;
};

// Incoming blocks: passed to the moves that take them, or kept in Peer::eager until then.
class EagerReceiver {
 public:
  EagerReceiver(NodeMemory& memory, Transfers& transfers) : memory_(memory), transfers_(transfers) {}

  void notice_arrived(Peer& peer, const Peer::Ordered& notice);
  // Some bytes of a block, or with a status: the block's end.
  void chunk_arrived(Peer& peer, const wire::Header& header, std::span<const std::byte> bytes);
  // No move will take the block any more.
  static void forget(Peer& peer, const BlockId& id);
  [[nodiscard]] std::uint64_t received_bytes() const { return received_bytes_; }

 private:
  void take(Peer& peer, std::uint64_t number, std::uint64_t offset, std::span<const std::byte> bytes);

  NodeMemory& memory_;
  Transfers& transfers_;
  std::uint64_t received_bytes_ = 0;
};

}  // namespace outrigger::fabric::ucx
