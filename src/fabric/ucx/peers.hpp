// The service processes of other nodes: what is known of each, and what ends the job because of one.
//
// Thread rule: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fabric/port.hpp"
#include "fabric/ucx/eager_blocks.hpp"
#include "fabric/ucx/network.hpp"
#include "fabric/ucx/peer_window.hpp"
#include "fabric/ucx/wire_options.hpp"
#include "proof/handshake.hpp"
#include "protocol/shared/link_counts.hpp"
#include "protocol/wire/job_map.hpp"
#include "protocol/wire/wire_messages.hpp"

namespace outrigger::fabric::ucx {

// Each group of members belongs to the class that is named before it.
struct Peer {
  SpId sp;
  std::string node;            // its name
  LinkCounts* link = nullptr;  // of its node; null: not counted
  Epoch epoch{1};
  // Another one has its place. This stays, as what the network has still under way of it says so here; nothing of it is
  // listened to, and nothing is sent to it.
  bool replaced = false;
  bool held_back = false;  // bytes of who had its place before are still being written here: it is not greeted yet

  // Channels. Connections are made when first needed; that for data once both have greeted. UCX answers nobody who
  // calls while its own connection to them has failed and is not closed yet, and callers wait for ever: a connection
  // that brings no greeting is made anew, and one over which nothing has come yet is not relied on.
  struct Connection {
    std::vector<std::byte> address;
    std::optional<Endpoint> endpoint;
    bool cut = false;          // it has failed. Before both have greeted it is made anew
    std::uint32_t number = 0;  // how often it has been made anew
    void make_anew() {
      if (!std::exchange(cut, false)) return;
      ++number;  // first: what is under way by the former one fails now
      endpoint.reset();
    }
  };
  Connection control;
  Connection data;
  bool moves_memory = false;  // the network, once `control` is open
  std::uint64_t messages_sent = 0;
  std::vector<std::byte> outbox;  // of the control channel, framed: what this turn has to say, sent at its end
  std::size_t outbox_messages = 0;

  // Receiver.
  struct Ordered {
    wire::Header header;
    std::vector<std::byte> payload;
  };
  std::uint64_t messages_taken = 0;
  std::map<std::uint64_t, Ordered> early_messages;  // by number; one before them is on its way

  // Until it has greeted, nothing of it is listened to, and nothing but greetings is sent to it.
  proof::Handshake handshake;

  // Liveness, for all to see.
  bool broken = false;          // nothing more is sent; what is under way stays so until tick() has seen it
  const char* fault = nullptr;  // of the peer, where we broke off ourselves
  std::string unreachable;      // why there is no connection
  bool departed = false;
  bool node_lost = false;              // as it says itself
  bool met = false;                    // it has greeted
  bool called_by_next = false;         // somebody has called who says that it has the place of this one
  bool wanted = false;                 // there is something for it
  bool heard = false;                  // since the last tick()
  std::uint32_t silent_turns = 0;      // since it was heard, or its node
  std::uint32_t unanswered_turns = 0;  // since it was heard
  std::uint32_t living_turns = 0;      // in which its node has shown that it lives, with a connection to it broken

  // ChunkReceiver.
  std::size_t landing = 0;  // chunks of it that the network is writing here, for moves of either side

  // Transfers.
  PeerWindow window;
  std::deque<std::uint64_t> ready;  // transfers with chunks to be started, by turns
  bool in_turn = false;

  // RequestServer.
  struct Wanted {
    wire::Header chunk;
    wire::OtherOperands operands;  // of a reduced_request
  };
  std::deque<Wanted> to_send;  // chunks that it has asked for, and of eager blocks
  bool in_sending_turn = false;
  std::size_t requests = 0;  // of them, asked for

  // EagerReceiver and EagerSender.
  EagerBlocks eager;  // from it
  std::uint64_t eager_room_bytes = 0;
  std::uint64_t eager_sent = 0;  // blocks

  [[nodiscard]] bool is_gone() const { return broken || departed; }
  // There has been business with it. A connection is none: strangers may have had it made, by calls in its name.
  [[nodiscard]] bool is_known() const { return met || wanted; }
  // Before both have greeted. But for greetings, which are said again, nothing has gone that way. From within no call
  // of UCX's.
  void reconnect() {
    control.make_anew();
    data.make_anew();
  }
  // The network has not taken something for it, which was handed over when the control connection had that number.
  void note_failure(std::uint32_t connection) {
    if (connection != control.number) return;  // closed by us
    (handshake.is_open() ? broken : control.cut) = true;
  }
  // It does what none of ours does, and is not listened to any more.
  void break_off(const char* why) {
    if (fault == nullptr) fault = why;
    broken = true;
  }
};

class Peers {
 public:
  // As Wire::introduce(). `own_address`: what the job map must say of this service process.
  [[nodiscard]] Status introduce(const JobMap& job_map, SpId self, Epoch self_epoch, const Secret& dpu_secret,
                                 const std::vector<std::byte>& own_address, const WireOptions& options);
  // Another one, which is held back, in the place of a peer. Error: no address, or one too many.
  struct Replaced {
    Peer& former;
    Peer& fresh;
  };
  [[nodiscard]] Result<Replaced> replace(SpId sp, Epoch epoch, std::span<const std::byte> address);
  // Of those that are held back one that need not be any more: from now on it is not. Null: none.
  [[nodiscard]] Peer* next_let_go();
  // Held back, or (null) nobody is.
  [[nodiscard]] const Peer* one_held_back() const;
  // One on another node.
  [[nodiscard]] Peer& of(SpId sp);
  // Null: it does not show the pass of one of these.
  [[nodiscard]] Peer* sender_of(const wire::Shown& shown);
  // Null: none of these. Whether it is the one is for its greeting to say.
  [[nodiscard]] Peer* named(SpId sp);
  // By SpId; null: this node's.
  [[nodiscard]] std::span<const std::unique_ptr<Peer>> all() const { return peers_; }
  void clear() {
    peers_.clear();
    former_.clear();
  }

  // Of a message from here.
  [[nodiscard]] wire::Header header(wire::Kind kind) const;
  [[nodiscard]] std::uint64_t eager_awaited_bytes() const { return eager_awaited_bytes_; }

  // What ends the job.
  void lose(const Peer& peer, const std::string& how);
  void fail(std::string why) { failure_ = PortFailure{std::move(why), PortFailure::Of::other_node}; }
  // What one in the place of this process may have. `how`: "has lost its connection".
  void begin_anew(const std::string& how, const Peer& peer);
  [[nodiscard]] const PortFailure* failure() const { return failure_ ? &*failure_ : nullptr; }

 private:
  [[nodiscard]] std::unique_ptr<Peer> make_peer(SpId sp, Epoch epoch, const std::string& node,
                                                Network::ChannelAddresses&& addresses);
  [[nodiscard]] bool at_rest(SpId sp) const;

  SpId self_;
  Epoch self_epoch_{1};
  proof::JobIdentity job_;
  std::uint64_t eager_bytes_of_peer_ = 0;
  std::uint64_t eager_awaited_bytes_ = 0;
  std::optional<PortFailure> failure_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<std::unique_ptr<Peer>> former_;  // one for each that has been replaced, without what was to be sent
  std::size_t held_back_ = 0;
};

}  // namespace outrigger::fabric::ucx
