// Messages to and from other service processes of this node, by rings in shared memory. What finds no room waits here,
// in order: sending never blocks.
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
  // With so many messages waiting for room the rings are backlogged().
  explicit PeerRings(std::size_t most_waiting) : most_waiting_(most_waiting) {}

  // Another one, by its number on the node, from 0: the ring that this process writes, the one that it reads, and the
  // eventfd that wakes the peer. Error: no rings.
  // In place of those to one that has died: what was queued in them is forgotten.
  [[nodiscard]] Status add(SpId number, Mapping outbound, Mapping inbound, UniqueFd doorbell);
  // Every peer has the ring that this process writes, and has forgotten any before it.
  [[nodiscard]] bool all_here() const;
  // The number in the job of the node's number 0. Elsewhere here numbers are those in the job.
  void count_from(SpId first) { first_ = first.value(); }
  // To one without rings: nothing. It has died, and when another one takes its place all is said again.
  void send(SpId to, std::span<const std::byte> message) override;

  // Sends what has waited for room.
  bool progress() override;
  // A bounded number of each peer, then false once.
  [[nodiscard]] bool receive(SpId& from, std::vector<std::byte>& message) override;
  [[nodiscard]] bool backlogged() const override { return waiting_ >= most_waiting_; }
  [[nodiscard]] const PortFailure* failure() const override { return failure_ ? &*failure_ : nullptr; }
  [[nodiscard]] bool arm() override;
  void wake_up() override;
  // Nobody tells when there is room in a ring.
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
  std::vector<std::unique_ptr<Peer>> peers_;  // by number on the node; null: not a peer
  std::size_t waiting_ = 0;
  std::size_t turn_ = 0;     // whose messages receive() takes
  std::uint32_t taken_ = 0;  // of them, in this turn
  bool sleeping_ = false;    // as the peers are told
  std::optional<PortFailure> failure_;
};

}  // namespace outrigger::fabric
