// What goes out to peers, by the channel that it belongs to:
//
//   control   engine messages, requests for chunks, acknowledgements, signs of life     always eager
//   data      chunks. Where the network moves memory by itself, by rendezvous: straight into the destination where
//             that is mapped. Where processors copy (TCP), each as one message: rendezvous halves the rate there
//
// What a turn has to say to a peer goes as one message at its end. The first thing to say to a peer begins with a
// greeting; what there is to send waits here until the peer knows us.
//
// Thread rule: one thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
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
  // And greetings. True when there was something.
  [[nodiscard]] bool flush_outboxes();
  // Calls a peer that there is something for and that has not greeted yet. Not yet one that is held back.
  void call(Peer& peer);
  // These two take effect in the next flush_outboxes(). The peer knows us from now on: what waits is sent.
  void greet(Peer& peer, const proof::HandshakeMessage& message);
  void peer_opened(Peer& peer);
  // What the network can do is known from then on. False: it cannot reach the peer.
  bool learn_route(Peer& peer);
  // It has been replaced: what waits for it here is dropped.
  void forget(const Peer& former);

  // Of chunks.
  [[nodiscard]] std::uint64_t sending_bytes() const { return under_way_.chunk_bytes; }
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }
  [[nodiscard]] bool backlogged() const { return under_way_.control_sends >= options_.waiting_messages; }
  [[nodiscard]] bool all_taken() const;

  // Something may have been left to do since the last turn.
  [[nodiscard]] bool busy() const { return busy_; }
  void set_busy(bool busy = true) { busy_ = busy; }

  // Nobody is listened to from begin_closing() on, and UCX calls back no more from end_closing() on.
  void begin_closing() {
    closing_ = true;
    handshakes_.clear();
    held_.sends.clear();
  }
  [[nodiscard]] bool closing() const { return closing_; }
  void end_closing() { sends_.clear(); }

 private:
  struct Send {
    wire::EncodedHeader header{};
    std::array<std::byte, std::max(wire::kShownBytes, proof::kHandshakeBytes)>
        shown{};  // header and pass, or a handshake
    std::size_t shown_bytes = 0;
    std::vector<std::byte> payload;  // with what stands before it in the outbox
    std::shared_ptr<const void> hold;
    StagingBuffer staging;
    std::uint64_t chunk_bytes = 0;  // of a chunk
    Channel channel = Channel::control;
    Peer* peer = nullptr;
    std::uint32_t connection = 0;  // the number of the peer's control connection
    Channels* channels = nullptr;
    std::span<const std::byte> bytes;  // what follows
    unsigned flags = 0;                // of UCX
  };

  // Of what the network has not taken yet, or what waits here for a greeting.
  struct UnderWay {
    std::size_t control_sends = 0;
    std::uint64_t chunk_bytes = 0;
    void begun(const Send& send);
    void ended(const Send& send);
  };
  // For peers that do not know us yet.
  struct Held {
    std::unordered_map<const Peer*, std::deque<std::unique_ptr<Send>>> sends;
    // True: the first for it.
    bool add(const Peer& peer, std::unique_ptr<Send> send);
    [[nodiscard]] bool any_for(const Peer& peer) const { return !sends.empty() && sends.contains(&peer); }
  };

  void flush_outbox(Peer& peer);
  [[nodiscard]] bool flush_handshakes();
  void hand_over(Peer& peer, std::unique_ptr<Send> send);
  void send_held(Peer& peer);
  void transmit(Peer& peer, std::unique_ptr<Send> send);
  [[nodiscard]] ucp_ep_h endpoint(Peer& peer, Channel channel);
  void note_route(Peer& peer, const Lanes& lanes);
  void sent(Send* send);
  static void on_sent(void* request, ucs_status_t status, void* send);

  const WireOptions& options_;
  Network& network_;
  Peers& peers_;
  std::unordered_map<Send*, std::unique_ptr<Send>> sends_;
  Held held_;
  UnderWay under_way_;
  std::uint64_t sent_bytes_ = 0;
  std::vector<std::pair<Peer*, proof::HandshakeMessage>> handshakes_;
  std::vector<Peer*> opened_;
  std::vector<Peer*> speaking_;    // with something in their outbox
  std::vector<WireRoute> routes_;  // told
  bool busy_ = false;
  bool closing_ = false;
};

}  // namespace outrigger::fabric::ucx
