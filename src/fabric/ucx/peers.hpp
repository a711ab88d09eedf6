// The service processes of other nodes: their state, and the failures of peers that end the job.
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
  std::string node;            // node name
  LinkCounts* link = nullptr;  // of its node; nullptr: not counted
  Epoch epoch{1};
  // Replaced by another process. This object stays because the network still refers to it. Its input is ignored, and
  // nothing is sent to it.
  bool replaced = false;
  bool held_back = false;  // bytes of its predecessor are still being written here: no handshake yet

  // Channels. Connections are made at first use; the data connection after the handshake. UCX does not answer a caller
  // while its own connection to that caller has failed and is not closed, and the caller waits for ever. So a
  // connection without a handshake is made again, and one is not trusted before something has come over it.
  struct Connection {
    std::vector<std::byte> address;
    std::optional<Endpoint> endpoint;
    bool cut = false;          // it has failed. Before the handshake is complete it is made again
    std::uint32_t number = 0;  // number of reconnections
    void make_anew() {
      if (!std::exchange(cut, false)) return;
      ++number;  // first: messages in flight on the old connection fail now
      endpoint.reset();
    }
  };
  Connection control;
  Connection data;
  bool moves_memory = false;  // valid once `control` is open
  std::uint64_t messages_sent = 0;
  std::vector<std::byte> outbox;  // framed control messages, sent at the end of the turn
  std::size_t outbox_messages = 0;

  // Receiver.
  struct Ordered {
    wire::Header header;
    std::vector<std::byte> payload;
  };
  std::uint64_t messages_taken = 0;
  std::map<std::uint64_t, Ordered> early_messages;  // by number; an earlier message is missing

  // Until the handshake is completed, only handshakes are sent to the peer, and its other messages are dropped.
  proof::Handshake handshake;

  // Liveness; read by all classes.
  bool broken = false;          // sends nothing; its moves stay in flight until the next tick()
  const char* fault = nullptr;  // protocol error of the peer, if this side closed the connection
  std::string unreachable;      // the reason for a missing connection

  bool departed = false;
  bool node_lost = false;              // by its own report
  bool met = false;                    // the handshake was completed once
  bool called_by_next = false;         // by a caller that claims to replace it
  bool wanted = false;                 // has messages or moves
  bool heard = false;                  // since the last tick()
  std::uint32_t silent_turns = 0;      // since the last input from it or its node
  std::uint32_t unanswered_turns = 0;  // since its last input
  bool asked_for = false;              // in this turn, and its node has not answered yet
  std::uint32_t living_turns = 0;      // broken, but its node answered

  // ChunkReceiver.
  std::size_t landing = 0;  // its chunks that the network is writing here, for moves of either side

  // Transfers.
  PeerWindow window;
  std::deque<std::uint64_t> ready;  // transfers with chunks to start, round-robin
  bool in_turn = false;

  // RequestServer.
  struct Wanted {
    wire::Header chunk;
    wire::OtherOperands operands;  // of a reduced_request
  };
  std::deque<Wanted> to_send;  // requested chunks, and chunks of eager blocks
  bool in_sending_turn = false;
  std::size_t requests = 0;  // number of requested ones in to_send

  // EagerReceiver and EagerSender.
  EagerBlocks eager;  // from the peer
  std::uint64_t eager_room_bytes = 0;
  std::uint64_t eager_sent = 0;  // blocks

  [[nodiscard]] bool is_gone() const { return broken || departed; }
  // The peer has been in use. A connection alone does not count: a stranger may have caused it by a call in its name.
  [[nodiscard]] bool is_known() const { return met || wanted; }
  // Only before the handshake is complete: nothing but handshake messages is lost then, and they are repeated. Must not
  // run inside a UCX callback.
  void reconnect() {
    control.make_anew();
    data.make_anew();
  }
  // The network failed to send to it. `connection`: number of the control connection at that time.
  void note_failure(std::uint32_t connection) {
    if (connection != control.number) return;  // closed by us
    (handshake.is_open() ? broken : control.cut) = true;
  }
  // The peer broke the protocol: its input is ignored from now on.
  void break_off(const char* why) {
    if (fault == nullptr) fault = why;
    broken = true;
  }
};

class Peers {
 public:
  // See Wire::introduce(). `own_address`: must equal this service process's entry in the job map.
  [[nodiscard]] Status introduce(const JobMap& job_map, SpId self, Epoch self_epoch, const Secret& dpu_secret,
                                 const std::vector<std::byte>& own_address, const WireOptions& options);
  // Puts a new peer, which is held back, in the place of another. Error: no address, or too many replacements.
  struct Replaced {
    Peer& former;
    Peer& fresh;
  };
  [[nodiscard]] Result<Replaced> replace(SpId sp, Epoch epoch, std::span<const std::byte> address);
  // A held-back peer that is ready; it is not held back any more. nullptr if there is none.
  [[nodiscard]] Peer* next_let_go();
  // A held-back peer, or nullptr.
  [[nodiscard]] const Peer* one_held_back() const;
  // `sp` must be on another node.
  [[nodiscard]] Peer& of(SpId sp);
  // nullptr if the message shows no peer's token.
  [[nodiscard]] Peer* sender_of(const wire::Shown& shown);
  // nullptr if unknown. The handshake verifies the peer's identity.
  [[nodiscard]] Peer* named(SpId sp);
  // By SpId; nullptr: service processes of this node.
  [[nodiscard]] std::span<const std::unique_ptr<Peer>> all() const { return peers_; }
  void clear() {
    peers_.clear();
    former_.clear();
  }

  // Header of an outgoing message.
  [[nodiscard]] wire::Header header(wire::Kind kind) const;
  [[nodiscard]] std::uint64_t eager_awaited_bytes() const { return eager_awaited_bytes_; }

  // Records a failure that ends the job.
  void lose(const Peer& peer, const std::string& how);
  void fail(std::string why) { failure_ = PortFailure{std::move(why), PortFailure::Of::other_node}; }
  // Records a failure that a replacement of this process may not have. `how`: "has lost its connection".
  void begin_anew(const std::string& how, const Peer& peer);
  [[nodiscard]] const PortFailure* failure() const { return failure_ ? &*failure_ : nullptr; }

 private:
  [[nodiscard]] std::unique_ptr<Peer> make_peer(SpId sp, Epoch epoch, const std::string& node,
                                                ChannelAddresses&& addresses);
  [[nodiscard]] bool at_rest(SpId sp) const;

  SpId self_;
  Epoch self_epoch_{1};
  proof::JobIdentity job_;
  std::uint64_t eager_bytes_of_peer_ = 0;
  std::uint64_t eager_awaited_bytes_ = 0;
  std::optional<PortFailure> failure_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<std::unique_ptr<Peer>> former_;  // replaced peers, without their queued messages
  std::size_t held_back_ = 0;
};

}  // namespace outrigger::fabric::ucx
