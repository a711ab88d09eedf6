// What goes out to peers, by the channel that it belongs to:
//
//   control   engine messages, requests for chunks, acknowledgements, signs of life     always eager
//   data      chunks. Where the network moves memory by itself, by rendezvous: straight into the destination where
//             that is mapped. Where processors copy (TCP), each as one message: rendezvous halves the rate there
//
// What a turn has to say to a peer goes as one message at its end.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "fabric/ucx/peers.hpp"
#include "fabric/ucx/route.hpp"
#include "fabric/ucx/staging.hpp"

namespace outrigger::fabric::ucx {

class Channels {
 public:
  Channels(const WireOptions& options, Network& network, Peers& peers)
      : options_(options), network_(network), peers_(peers) {}

  // At the end of the turn. What is for a peer that has gone is dropped: Liveness sees to the rest.
  void say(Peer& peer, const wire::Header& header, std::span<const std::byte> payload = {});
  // The same with the peer's next number in `header.move`: taken there in that order.
  void say_in_order(Peer& peer, wire::Header header, std::span<const std::byte> payload);
  // `bytes` stay as long as `hold` or `staging` does.
  void send_chunk(Peer& peer, const wire::Header& header, const std::byte* bytes, std::shared_ptr<const void> hold,
                  StagingBuffer staging);
  // True when there was something.
  [[nodiscard]] bool flush_outboxes();
  // What the network can do is known from then on. False: it cannot reach the peer.
  bool connect_data(Peer& peer) { return endpoint(peer, Channel::data) != nullptr; }

  // Of chunks.
  [[nodiscard]] std::uint64_t sending_bytes() const { return sending_bytes_; }
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }
  [[nodiscard]] bool backlogged() const { return control_sends_ >= options_.waiting_messages; }
  [[nodiscard]] bool all_taken() const { return sends_.empty(); }

  // Something may have been left to do since the last turn.
  [[nodiscard]] bool busy() const { return busy_; }
  void set_busy(bool busy = true) { busy_ = busy; }

  // Nobody is listened to from begin_closing() on, and UCX calls back no more from end_closing() on.
  void begin_closing() { closing_ = true; }
  [[nodiscard]] bool closing() const { return closing_; }
  void end_closing() { sends_.clear(); }

 private:
  struct Send {
    wire::EncodedHeader header{};
    std::vector<std::byte> payload;  // with what stands before it in the outbox
    std::shared_ptr<const void> hold;
    StagingBuffer staging;
    std::uint64_t chunk_bytes = 0;  // of a chunk
    Channel channel = Channel::control;
    Peer* peer = nullptr;
    Channels* channels = nullptr;
  };

  void flush_outbox(Peer& peer);
  void hand_over(Peer& peer, std::unique_ptr<Send> send, const std::byte* bytes, std::size_t count, unsigned flags);
  [[nodiscard]] ucp_ep_h endpoint(Peer& peer, Channel channel);
  void note_route(Peer& peer, const Lanes& lanes);
  void sent(Send* send);
  static void on_sent(void* request, ucs_status_t status, void* send);

  const WireOptions& options_;
  Network& network_;
  Peers& peers_;
  std::unordered_map<Send*, std::unique_ptr<Send>> sends_;
  std::size_t control_sends_ = 0;
  std::uint64_t sending_bytes_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::vector<Peer*> speaking_;    // with something in their outbox
  std::vector<WireRoute> routes_;  // told
  bool busy_ = false;
  bool closing_ = false;
};

}  // namespace outrigger::fabric::ucx
