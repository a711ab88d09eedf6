// Copies that ranks make for this service process: who could help with a move, what each is given and when, what comes
// back. Who may help at all, and when it pays: copy/policy.hpp.
//
// Copiers run on this process's core: lend_out() gives them what there is for them, and lend_core() the core until they
// have finished or a millisecond is over. While all ranks of this process wait, those that are given copies are asked
// to make some of them on their own cores, and are given the next ones before all of the last are done. As soon as one
// computes they are asked no more: its core may be theirs.
//
// Where this process has no core, ranks that wait do all this on theirs, without copiers, while this process sleeps.
//
// A lender that does not get on is left alone and its work done here, all but the one chunk that it may have in hand.
//
// Thread rule: one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "fabric/host/lanes/lender.hpp"
#include "fabric/host/moves.hpp"
#include "fabric/host/node_ranks.hpp"

namespace outrigger::fabric {

struct LendingOptions {
  std::uint64_t copier_most_bytes = 1U << 20;  // for one copier in one lend_out()
  std::uint64_t copiers_bytes = 2U << 20;      // for all of them in one lend_out(), at least one chunk
  std::uint64_t helped_bytes = 4U << 20;       // the same, unfinished at a time, while ranks help
  // What a copier has not taken after so long is copied here.
  std::chrono::milliseconds copier_patience{10};
  // The same where only ranks that wait copy, and how much they take at a time.
  std::chrono::milliseconds rank_patience{2};
  std::uint64_t rank_chunk_bytes = 1U << 20;
};

class Lending {
 public:
  // What nobody makes goes to `here`.
  Lending(const LendingOptions& options, std::uint64_t chunk_bytes, NodeRanks& ranks, Moves& moves, ChunkQueue& here)
      : options_(options), chunk_bytes_(chunk_bytes), ranks_(ranks), moves_(moves), here_(here) {}

  // Before the first expect().
  void share_core(copy::CoreShare share) { core_share_ = share; }
  // The rank is served by this process and may lend.
  void expect(WorldRank rank);
  void drop_rank(WorldRank rank);

  // To whoever can make it: a lender, or this process.
  void queue(const Chunk& chunk);
  // Some lender has something to do or to give back.
  [[nodiscard]] bool busy() const { return !busy_.empty(); }
  // True: anything.
  bool lend_out();
  bool take_in();
  // Until copiers have done what they were given, or a millisecond is over.
  void lend_core() const;
  // lend_out() or take_in() has something to do; lenders get on by themselves and ring otherwise.
  [[nodiscard]] bool anything_to_do() const;
  // Only ranks that wait lend: jobs need not be looked after before somebody rings, or patience is over.
  [[nodiscard]] bool by_ranks_alone() const { return lenders() == copy::Lenders::waiting_ranks; }
  [[nodiscard]] std::optional<LenderBoard::Clock::duration> patience_left() const;

  // The move is cancelled: of its chunks only those that somebody has in hand go on.
  void recall(HostMove& move);
  // Somebody still writes chunks of a cancelled move to this rank.
  [[nodiscard]] bool writes_late_to(WorldRank rank) const { return orphans_ != 0 && has_orphans(rank); }

 private:
  [[nodiscard]] copy::Lenders lenders() const { return copy::lenders_with(core_share_); }
  // Who could make the move; null: nobody.
  [[nodiscard]] Lender* lender_for(const HostMove& move);
  [[nodiscard]] bool leave_to_waiting_ranks();
  // So many bytes at present; 0: nothing.
  [[nodiscard]] std::uint64_t may_lend_to(Lender& lender, bool helped);
  std::uint64_t lend(Lender& lender, std::uint64_t most);
  // Nothing: the chunk cannot be given, and has been settled or queued elsewhere.
  [[nodiscard]] std::optional<CopyJob> job_of(Lender& lender, const Chunk& chunk);
  void ask(Lender& lender);
  void take_in_from(Lender& lender);
  void give_up(const Chunk& chunk);
  [[nodiscard]] bool has_orphans(WorldRank destination) const;

  const LendingOptions options_;
  const std::uint64_t chunk_bytes_;
  NodeRanks& ranks_;
  Moves& moves_;
  ChunkQueue& here_;
  copy::CoreShare core_share_ = copy::CoreShare::own;
  std::vector<std::unique_ptr<Lender>> lenders_;  // in the order in which they were expected
  std::vector<Lender*> by_rank_;                  // null: lends nothing
  std::deque<Lender*> busy_;                      // have something to do
  std::size_t orphans_ = 0;                       // chunks of cancelled moves that somebody still has in hand
  std::vector<LenderBoard::Finished> finished_;   // kept for its memory, as is returned_
  std::vector<Chunk> returned_;
};

}  // namespace outrigger::fabric
