// Matches announcements and local posts of an operation, which may come in any order. Announcements that come before
// the local post wait here (unexpected messages in MPI's terms). Local ranks match each other without messages. A match
// makes a block ready to move, or notifies one side that there is nothing to move.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "engine/core/context.hpp"
#include "engine/core/local_rank.hpp"
#include "protocol/wire/peer_messages.hpp"

namespace outrigger::engine {

class Matcher {
 public:
  explicit Matcher(Operation& operation) : operation_(operation) {}
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;
  ~Matcher();

  // Matches a rank that has announced with everything that came before.
  void match(LocalRank& rank);
  void on_announce(SpId from, peer::Announce announce);
  // The rank's blocks, which were held back, exist now.
  void offer_to_local_ranks(LocalRank& rank);

  // An unexpected announcement is kept until all local ranks that it concerns have matched it. All local ranks match
  // all announcements, so they are dropped together.
  void forget_met();
  // The same when only restored ranks are known.
  void forget_met_by_restored();
  [[nodiscard]] bool keeps_any() const { return !unexpected_.empty(); }
  [[nodiscard]] bool keeps(SpId from, GroupRank source) const;
  // Announcements that came before the rank's post, including those of other local ranks.
  [[nodiscard]] std::uint32_t count_early(GroupRank rank) const;
  // A local rank ended the operation without taking part: notifies all peers that announced to it.
  void tell_announcers(const peer::Finished& finished) const;

 private:
  struct Unexpected {
    SpId from;
    Epoch epoch;
    peer::Announce announce;
  };
  // By (rank, first rank that it covers).
  using UnexpectedTable = std::map<std::pair<WorldRank, std::uint32_t>, Unexpected>;

  void match_local_ranks(LocalRank& rank);
  void match_pair(LocalRank& announcer, LocalRank& reader);
  [[nodiscard]] bool fits(const peer::Announce& announce, SpId from) const;
  // True: a local rank still has to match it.
  [[nodiscard]] bool meet_known(const peer::Announce& announce, SpId from);
  [[nodiscard]] std::size_t count_ended_restored() const;
  // The members are unknown: any local rank may be one.
  [[nodiscard]] bool all_local_ranks_have_ended() const;
  [[nodiscard]] bool meet_restored(const peer::Announce& announce, SpId from) const;
  void keep(SpId from, peer::Announce&& announce);
  void apply(const peer::Announce& announce, SpId from, LocalRank& rank);
  void offer(LocalRank& destination, GroupRank source, const RemoteBlock& remote, bool by_extent);
  void invite(LocalRank& source, GroupRank destination, const RemoteBlock& remote, bool by_extent);
  UnexpectedTable::iterator remove(UnexpectedTable::iterator unexpected);

  Operation& operation_;
  UnexpectedTable unexpected_;
};

}  // namespace outrigger::engine
