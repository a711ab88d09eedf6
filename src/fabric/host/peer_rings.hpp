// Messages between service processes of this node, by rings in shared memory. Messages without room wait here, in
// order: sending never blocks.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "base/shared_memory.hpp"
#include "base/unique_fd.hpp"
#include "fabric/peer_messenger.hpp"
#include "fabric/port.hpp"
#include "protocol/ids.hpp"
#include "protocol/shared/byte_ring.hpp"

namespace outrigger::fabric {

class PeerRings final : public PeerMessenger, public Port {
 public:
  // The rings are backlogged() with this many messages waiting for room.
  explicit PeerRings(std::size_t most_waiting) : most_waiting_(most_waiting) {}

  // Adds a peer by its number on the node, from 0: the ring to write, the ring to read, and the eventfd that wakes the
  // peer. Error: invalid rings. Replaces the rings of a dead process and drops their messages.
  [[nodiscard]] Status add(SpId number, Mapping outbound, Mapping inbound, UniqueFd doorbell);
  // Every peer has its rings, and has dropped former ones.
  [[nodiscard]] bool all_here() const;
  // World number of the node's service process 0. All other numbers here are world numbers.
  void count_from(SpId first) { first_ = first.value(); }
  // Drops messages to a peer without rings: it has died, and its replacement gets everything again.
  void send(SpId to, std::span<const std::byte> message) override;

  // Sends messages that wait for room.
  bool progress() override;
  // Takes a bounded number of messages from each peer, then returns false once.
  [[nodiscard]] bool receive(SpId& from, std::vector<std::byte>& message) override;
  [[nodiscard]] bool backlogged() const override { return waiting_ >= most_waiting_; }
  [[nodiscard]] const PortFailure* failure() const override { return failure_ ? &*failure_ : nullptr; }
  [[nodiscard]] bool arm() override;
  void wake_up() override;
  // Room in a ring is not notified.
  [[nodiscard]] bool must_poll() const override { return waiting_ != 0; }
  [[nodiscard]] std::optional<Clock::duration> sleep_limit(Clock::time_point now) const override;

 private:
  struct Peer {
    Mapping outbound;
    Mapping inbound;
    ByteRingWriter writer;
    ByteRingReader reader;
    UniqueFd doorbell;
    std::deque<std::vector<std::byte>> waiting;
  };

  [[nodiscard]] bool send_waiting_to(Peer& peer);
  static void ring_doorbell(Peer& peer);

  const std::size_t most_waiting_;
  std::uint32_t first_ = 0;
  std::vector<std::unique_ptr<Peer>> peers_;  // by number on the node; nullptr: not a peer
  std::size_t waiting_ = 0;
  std::size_t turn_ = 0;     // the peer whose messages receive() takes
  std::uint32_t taken_ = 0;  // messages taken from it in this turn
  bool sleeping_ = false;    // published to the peers
  std::optional<PortFailure> failure_;
};

}  // namespace outrigger::fabric
