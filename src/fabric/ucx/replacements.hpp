// Replaced peers: a service process of another node has died, and a new one has its place.
//
// Messages to and from the former process that were not processed are dropped. Moves with it start again with the new
// one, unnoticed by their callers.
//
// Nothing is written late. If processors copy (TCP, and short chunks everywhere), a chunk is one message that is
// written when it is read here. It shows the former peer's token and is dropped. If the network moves memory, it
// writes only chunks that were accepted here. Such receives end with the bytes, or with an error when UCX has noticed
// the dead peer. Until then the new peer is held back: no handshake, so that no move restarts.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <span>

#include "fabric/node_memory.hpp"
#include "fabric/ucx/receiver.hpp"

namespace outrigger::fabric::ucx {

class Replacements {
 public:
  // The classes that drop a peer's state.
  struct Rooms {
    RequestServer& server;
    EagerSender& eager_out;
    ChunkReceiver& chunks;
    Receiver& receiver;
    Transfers& transfers;
  };
  // All must outlive this.
  Replacements(NodeMemory& memory, Network& network, Peers& peers, Channels& channels, const Rooms& rooms)
      : memory_(memory), network_(network), peers_(peers), channels_(channels), rooms_(rooms) {}

  // The peer's process has ended and a new one has its place and this address. Ignored unless `epoch` is newer than the
  // known one. Error: not a peer, or an invalid address.
  [[nodiscard]] Status moved(SpId sp, Epoch epoch, std::span<const std::byte> address);
  // The peer does not answer but its node does: the peer may recover or be replaced. `epoch`: the present process's; 0:
  // a new process will start.
  void expect(SpId sp, Epoch epoch);

  // Runs every turn: releases held-back peers. False if there were none.
  [[nodiscard]] bool let_go();
  // Before local memory is released: waits until no former peer's chunk is being written.
  void await_rest();

 private:
  NodeMemory& memory_;
  Network& network_;
  Peers& peers_;
  Channels& channels_;
  Rooms rooms_;
};

}  // namespace outrigger::fabric::ucx
