// Peers that are replaced: a service process of another node has died, and another one has its place.
//
// What was said to the former one is forgotten, as is what it has said and nobody has looked at; the moves with it
// begin anew with the one in its place, of which callers notice nothing.
//
// Nothing that the former one was writing comes late. Where processors copy (TCP, and short chunks everywhere) each
// chunk is one message, which is written when it is read here, and is not read any more: it shows a pass of the former
// one. Where the network moves memory it writes what has been accepted here and nothing else: such receives end, with
// the bytes or with an error once UCX has seen that the other end is gone, and until then the one in its place is held
// back: it is not greeted, so that nothing is done again before all is at rest.
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
  // Those that forget a peer.
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

  // Another one has the place of a peer, whose process has ended, and is to be reached there. An epoch that is not
  // newer than the known one changes nothing. Error: it is no peer, or that is no address.
  [[nodiscard]] Status moved(SpId sp, Epoch epoch, std::span<const std::byte> address);
  // The peer's node is there, though the peer does not answer: it may go on, or be replaced. `epoch`: of the one that
  // is there now; 0: there will be one.
  void expect(SpId sp, Epoch epoch);

  // Every turn: those that need not be held back any more. True: there were some.
  [[nodiscard]] bool let_go();
  // Before memory here is given away: waits until nothing of a former one is being written.
  void await_rest();

 private:
  NodeMemory& memory_;
  Network& network_;
  Peers& peers_;
  Channels& channels_;
  Rooms rooms_;
};

}  // namespace outrigger::fabric::ucx
