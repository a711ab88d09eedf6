// Sends to peers, on two channels:
//
//   control   engine messages, requests for chunks, acknowledgements, pings, and short chunks of eager blocks where
//             processors copy. Always eager
//   data      chunks. Where the network moves memory: by rendezvous, straight into mapped destinations. Where
//             processors copy (TCP): one message per chunk, as rendezvous halves the rate there
//
// All control messages of a turn go to a peer as one message at its end. The first message to a peer starts a
// handshake; further messages wait here until the handshake is complete.
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

  // Sends at the end of the turn. Messages to a peer that has gone are dropped: Liveness handles it.
  void say(Peer& peer, const wire::Header& header, std::span<const std::byte> payload = {});
  // The same with the peer's next number in `header.move`; the peer processes them in that order.
  void say_in_order(Peer& peer, wire::Header header, std::span<const std::byte> payload);
  // `bytes` stay valid as long as `hold` or `staging`.
  void send_chunk(Peer& peer, const wire::Header& header, const std::byte* bytes, std::shared_ptr<const void> hold,
                  StagingBuffer staging);
  // Sends outboxes and handshake messages. False if there were none.
  [[nodiscard]] bool flush_outboxes();
  // Starts a handshake with a peer that has not completed one, unless the peer is held back.
  void call(Peer& peer);
  // These two take effect in the next flush_outboxes(). The peer knows us from now on: what waits is sent.
  void send_handshake(Peer& peer, const proof::HandshakeMessage& message);
  void peer_opened(Peer& peer);
  // Finds out the network's abilities for the peer. False: the peer is unreachable.
  bool learn_route(Peer& peer);
  // The peer has been replaced: drops its waiting messages.
  void forget(const Peer& former);

  // Bytes of chunks.
  [[nodiscard]] std::uint64_t sending_bytes() const { return under_way_.chunk_bytes; }
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }
  [[nodiscard]] bool backlogged() const { return under_way_.control_sends >= options_.waiting_messages; }
  [[nodiscard]] bool all_taken() const;

  // The last turn may have left work.
  [[nodiscard]] bool busy() const { return busy_; }
  void set_busy(bool busy = true) { busy_ = busy; }

  // Ignores all input from begin_closing() on. After end_closing() UCX calls back no more.
  void begin_closing() {
    closing_ = true;
    handshakes_.clear();
    held_.sends.clear();
  }
  [[nodiscard]] bool closing() const { return closing_; }
  void end_closing() { sends_.clear(); }

 private:
  struct Send {
    wire::Header header;
    std::vector<std::byte> shown;    // header and token, or a handshake
    std::vector<std::byte> payload;  // with earlier messages of the outbox
    std::shared_ptr<const void> hold;
    StagingBuffer staging;
    std::uint64_t chunk_bytes = 0;  // of a chunk
    Channel channel = Channel::control;
    Peer* peer = nullptr;
    std::uint32_t connection = 0;  // number of the peer's control connection
    Channels* channels = nullptr;
    std::span<const std::byte> bytes;  // the part after `shown`
    unsigned flags = 0;                // for UCX
  };

  // Messages that the network has not taken, or that wait for a handshake.
  struct UnderWay {
    std::size_t control_sends = 0;
    std::uint64_t chunk_bytes = 0;
    void begun(const Send& send);
    void ended(const Send& send);
  };
  // Messages to peers without a completed handshake.
  struct Held {
    std::unordered_map<const Peer*, std::deque<std::unique_ptr<Send>>> sends;
    // True: the first for this peer.
    bool add(const Peer& peer, std::unique_ptr<Send> send);
    [[nodiscard]] bool any_for(const Peer& peer) const { return !sends.empty() && sends.contains(&peer); }
  };

  // Longest batch of control messages.
  [[nodiscard]] std::uint64_t batch_bytes(const Peer& peer) const;
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
  std::vector<Peer*> speaking_;    // with messages in their outbox
  std::vector<WireRoute> routes_;  // already reported
  bool busy_ = false;
  bool closing_ = false;
};

}  // namespace outrigger::fabric::ucx
