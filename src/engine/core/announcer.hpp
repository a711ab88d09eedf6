// Announces an operation's local ranks to the other service processes: one announcement to each that has members, as
// soon as there is a credit for it. Credits belong to the group: an operation holds one per peer from its announcement
// until the peer has settled it (see CreditLine).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/core/group.hpp"
#include "engine/core/local_rank.hpp"
#include "engine/core/pool.hpp"

namespace outrigger::engine {

class Announcer {
 public:
  explicit Announcer(Operation& operation) : operation_(operation) {}

  // Called once, with the first local rank.
  void make(Pool& pool, std::size_t peers) { outstanding_.make(pool, peers, 0); }

  // Announces the rank to all service processes that it concerns, or queues it for a credit. A barrier announces to the
  // ranks below at once, and to the rank above when all ranks below have announced.
  void announce(LocalRank& rank);
  void announce_above(LocalRank& rank);
  // Announces to a peer with a credit that has become free. False: nothing was left to announce.
  [[nodiscard]] bool announce_with_credit(GroupRank rank, std::uint32_t peer);
  // After the peer's restart: repeats the announcements that the peer has lost.
  void reannounce(std::uint32_t peer);

  [[nodiscard]] bool holds_credit(std::uint32_t peer) const { return outstanding_[peer] != 0; }
  // The rank's pairs with the peer's ranks are settled.
  void settled_at(LocalRank& rank, std::uint32_t peer);
  // The rank completes or is dropped.
  void give_back_credits(LocalRank& rank);

  [[nodiscard]] std::optional<std::string> broken_invariant() const;

 private:
  void announce_to(LocalRank& rank, std::uint32_t peer);
  // The service process of the only rank that gets this rank's block. kSelf: that rank is local, or there is none.
  [[nodiscard]] std::uint32_t peer_above(const LocalRank& rank) const;
  // True if a rank of the peer must know about this rank. Rooted collectives: the root's service process learns about
  // all ranks. Neighbor collectives: both sides, whatever the direction of their blocks.
  [[nodiscard]] bool concerns(const LocalRank& rank, std::uint32_t peer) const;
  void send(LocalRank& rank, std::uint32_t peer, bool again);
  [[nodiscard]] bool sends_eagerly(const LocalRank& rank, const Membership::Peer& reader) const;
  void send_eager(LocalRank& rank, const Membership::Peer& reader);

  Operation& operation_;
  PooledArray<std::uint32_t> outstanding_;  // per peer: announcements that hold a credit of the operation
};

}  // namespace outrigger::engine
