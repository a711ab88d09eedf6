// Blocks that are sent before they are asked for: on their way out, and on their way in.
//
// The way there and back that a request takes is saved where a peer has room for what it has not asked for: a fixed
// number of bytes, taken up until the block is withdrawn. Where the network moves memory, only few bytes are sent so.
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

// Ours.
class EagerSender {
 public:
  EagerSender(const WireOptions& options, NodeMemory& memory, Peers& peers, Channels& channels, RequestServer& server)
      : options_(options), memory_(memory), peers_(peers), channels_(channels), server_(server) {}

  // As BlockMover's of these names.
  void send(const BlockId& id, const Block& from, Peer& reader);
  void withdraw(const BlockId& id);
  // It has been replaced: what it was sent is nowhere now, and the one in its place may be sent it again.
  void forget(const Peer& former);

 private:
  struct Sent {
    Peer* reader;
    std::uint64_t number;
    std::uint64_t charge_bytes;
  };
  // Of a block of `bytes` for this peer: how many of them may be sent now.
  [[nodiscard]] std::uint64_t bytes_allowed(const Peer& reader, std::uint64_t bytes) const;

  const WireOptions& options_;
  NodeMemory& memory_;
  Peers& peers_;
  Channels& channels_;
  RequestServer& server_;
  std::unordered_map<BlockId, Sent> sent_;
};

// Those of peers: to the moves that take them, or kept in Peer::eager until one does.
class EagerReceiver {
 public:
  EagerReceiver(NodeMemory& memory, Transfers& transfers) : memory_(memory), transfers_(transfers) {}

  void notice_arrived(Peer& peer, const Peer::Ordered& notice);
  // Some bytes of a block, or, with a status, no more of it.
  void chunk_arrived(Peer& peer, const wire::Header& header, std::span<const std::byte> bytes);
  // Nobody will move the block (any more).
  static void forget(Peer& peer, const BlockId& id);
  [[nodiscard]] std::uint64_t received_bytes() const { return received_bytes_; }

 private:
  void take(Peer& peer, std::uint64_t number, std::uint64_t offset, std::span<const std::byte> bytes);

  NodeMemory& memory_;
  Transfers& transfers_;
  std::uint64_t received_bytes_ = 0;
};

}  // namespace outrigger::fabric::ucx
