// Receives from peers: checks the sender and the message, and passes it on.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "fabric/ucx/chunk_receiver.hpp"
#include "fabric/ucx/eager.hpp"
#include "fabric/ucx/request_server.hpp"
#include "fabric/ucx/transfers.hpp"

namespace outrigger::fabric::ucx {

class Receiver {
 public:
  Receiver(const WireOptions& options, Peers& peers, Channels& channels, Transfers& transfers, ChunkReceiver& chunks,
           EagerReceiver& eager, RequestServer& server)
      : options_(options),
        peers_(peers),
        channels_(channels),
        transfers_(transfers),
        chunks_(chunks),
        eager_(eager),
        server_(server) {}

  // For the two workers.
  [[nodiscard]] WorkerEvents& control() { return control_; }
  [[nodiscard]] WorkerEvents& data() { return data_; }

  // The next message of a peer; false if there is none.
  [[nodiscard]] bool next_message(SpId& from, std::vector<std::byte>& message);
  [[nodiscard]] bool has_messages() const { return !inbox_.empty(); }
  // The peer has been replaced: drops its unread messages.
  void forget(const Peer& former) {
    std::erase_if(inbox_, [&](const Inbound& inbound) { return inbound.from == former.sp; });
  }

 private:
  struct ChannelEvents final : WorkerEvents {
    ChannelEvents(Receiver& to, Channel from) : receiver(to), channel(from) {}
    ucs_status_t arrived(std::span<const std::byte> header, void* data, std::size_t bytes, bool rendezvous) override {
      return receiver.arrived(channel, header, data, bytes, rendezvous);
    }
    Receiver& receiver;
    Channel channel;
  };
  struct Inbound {
    SpId from;
    std::vector<std::byte> message;
  };

  ucs_status_t arrived(Channel channel, std::span<const std::byte> header, void* data, std::size_t bytes,
                       bool rendezvous);
  void take_handshake(std::span<const std::byte> bytes);
  ucs_status_t take(Channel channel, Peer& peer, const wire::Header& header, void* data, std::size_t count,
                    bool rendezvous);
  void take_control(Peer& peer, const wire::Header& header, std::span<const std::byte> payload);
  void take_batch(Peer& peer, std::span<const std::byte> batch);
  void take_numbered(Peer& peer, const wire::Header& header, std::span<const std::byte> payload);
  void take_next(Peer& peer, Peer::Ordered&& next);
  void take_farewell(Peer& peer, const wire::Header& header);

  const WireOptions& options_;
  Peers& peers_;
  Channels& channels_;
  Transfers& transfers_;
  ChunkReceiver& chunks_;
  EagerReceiver& eager_;
  RequestServer& server_;
  ChannelEvents control_{*this, Channel::control};
  ChannelEvents data_{*this, Channel::data};
  std::deque<Inbound> inbox_;
};

}  // namespace outrigger::fabric::ucx
