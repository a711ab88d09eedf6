// Where announcements and local posts of an operation meet, in any order: peers' announcements that come before a local
// rank's own wait here (MPI would say unexpected), local ranks meet each other without messages. What comes of a
// meeting is a block that may be moved, or one side's word that there is nothing to move.
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

  // The rank has announced its blocks: it meets all that were first.
  void match(LocalRank& rank);
  void on_announce(SpId from, peer::Announce announce);

  // Unexpected announcements are kept until the last local rank that they concern has met them; all local ranks meet
  // all announcements, so they go together.
  void forget_met();
  // The same where only ranks that were restored after a restart are known.
  void forget_met_by_restored();
  [[nodiscard]] bool keeps_any() const { return !unexpected_.empty(); }
  // Announcements that are here before the rank's post, also of other local ranks.
  [[nodiscard]] std::uint32_t count_early(GroupRank rank) const;
  // A local rank has ended the operation without a part in it: whoever has announced to it is told.
  void tell_announcers(const peer::Finished& finished) const;

 private:
  struct Unexpected {
    SpId from;
    Epoch epoch;
    peer::Announce announce;
  };
  // By (rank, first of the ranks that it covers).
  using UnexpectedTable = std::map<std::pair<WorldRank, std::uint32_t>, Unexpected>;

  void match_local_ranks(LocalRank& rank);
  void match_pair(LocalRank& announcer, LocalRank& reader);
  [[nodiscard]] bool fits(const peer::Announce& announce, SpId from) const;
  // True: somebody here is yet to meet it.
  [[nodiscard]] bool meet_known(const peer::Announce& announce, SpId from);
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
