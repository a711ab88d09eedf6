// What this service process says of an operation's local ranks: one announcement to each other service process with
// members, as soon as there is a credit for it. Credits are the group's, one for each operation that is announced to a
// peer and not settled there (see CreditLine).
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

  // Once, with the first local rank.
  void make(Pool& pool, std::size_t peers) { outstanding_.make(pool, peers, 0); }

  // Tells every service process that the rank concerns, or lets it wait for a credit. Of a barrier those below it, and
  // when all below have been announced to it, that above.
  void announce(LocalRank& rank);
  void announce_above(LocalRank& rank);
  // To a peer, now that there is a credit. False: nothing was left to say.
  [[nodiscard]] bool announce_with_credit(GroupRank rank, std::uint32_t peer);
  // After the peer's restart: what it has lost is said again.
  void reannounce(std::uint32_t peer);

  [[nodiscard]] bool holds_credit(std::uint32_t peer) const { return outstanding_[peer] != 0; }
  // The rank's pairs with the peer's ranks need nothing more.
  void settled_at(LocalRank& rank, std::uint32_t peer);
  // The rank completes, or goes.
  void give_back_credits(LocalRank& rank);

  [[nodiscard]] std::optional<std::string> broken_invariant() const;

 private:
  void announce_to(LocalRank& rank, std::uint32_t peer);
  // The service process of the one rank that the rank's block is for; kSelf: it is here, or there is none.
  [[nodiscard]] std::uint32_t peer_above(const LocalRank& rank) const;
  // Does anybody at the peer have to hear of the rank? Of rooted collectives only the root's side hears of all,
  // of neighbors each side of those of its ranks, whichever way their blocks go.
  [[nodiscard]] bool concerns(const LocalRank& rank, std::uint32_t peer) const;
  void send(LocalRank& rank, std::uint32_t peer, bool again);
  [[nodiscard]] bool sends_eagerly(const LocalRank& rank, const Membership::Peer& reader) const;
  void send_eager(LocalRank& rank, const Membership::Peer& reader);

  Operation& operation_;
  PooledArray<std::uint32_t> outstanding_;  // per peer: announcements holding the operation's credit
};

}  // namespace outrigger::engine
