// Copies that ranks make for this service process: the candidates for a move, the chunks that each is given, and their
// results. copy/policy.hpp decides who may help and when it pays.
//
// Copiers run on this process's core. lend_out() gives them chunks, and lend_core() gives them the core until they have
// finished or a millisecond is over. While all ranks of this process wait, they are asked to copy on their own cores,
// and get new chunks before the last are done, also of what this process would copy. As soon as one computes they are
// not asked any more: it may need its core.
//
// If this process has no core, waiting ranks copy everything on theirs, without copiers, while this process sleeps.
//
// A lender without progress gets no more jobs, and this process does its work, except for a chunk that it may hold.
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
  std::uint64_t copiers_bytes = 2U << 20;      // for all copiers; at least one chunk
  std::uint64_t helped_bytes = 4U << 20;       // unfinished, while ranks help
  // A chunk that a copier has not taken after this time is copied here.
  std::chrono::milliseconds copier_patience{10};
  // The same if only waiting ranks copy, and the size of their chunks.
  std::chrono::milliseconds rank_patience{2};
  std::uint64_t rank_chunk_bytes = 1U << 20;
};

class Lending {
 public:
  // Chunks without a lender go to `here`.
  Lending(const LendingOptions& options, std::uint64_t chunk_bytes, NodeRanks& ranks, Moves& moves, ChunkQueue& here)
      : options_(options), chunk_bytes_(chunk_bytes), ranks_(ranks), moves_(moves), here_(here) {}

  // Call it before the first expect().
  void share_core(copy::CoreShare share) { core_share_ = share; }
  // The rank is served by this process and may lend its threads.
  void expect(WorldRank rank);
  void drop_rank(WorldRank rank);

  // Queues it for a lender, or for this process.
  void queue(const Chunk& chunk);
  // A lender has jobs, or something to return.
  [[nodiscard]] bool busy() const { return !busy_.empty(); }
  // This process has so much to copy by itself that waiting ranks should get a part of it.
  [[nodiscard]] bool may_share() const {
    return lenders() == copy::Lenders::copiers && !lenders_.empty() && here_.bytes() > copy::kLeastBytesForLateHelp;
  }
  // False if there was nothing.
  bool lend_out();
  bool take_in();
  // Lasts until copiers have done their jobs, or a millisecond is over.
  void lend_core() const;
  // lend_out() or take_in() has work. Otherwise lenders work alone and ring.
  [[nodiscard]] bool anything_to_do() const;
  // Only waiting ranks lend: jobs need no attention before a rank rings or the patience is over.
  [[nodiscard]] bool by_ranks_alone() const { return lenders() == copy::Lenders::waiting_ranks; }
  [[nodiscard]] std::optional<LenderQueue::Clock::duration> patience_left() const;

  // The move is cancelled: only chunks that a lender holds continue.
  void recall(HostMove& move);
  // A lender still writes chunks of a cancelled move to this rank.
  [[nodiscard]] bool writes_late_to(WorldRank rank) const { return orphans_ != 0 && has_orphans(rank); }

 private:
  [[nodiscard]] copy::Lenders lenders() const { return copy::lenders_with(core_share_); }
  // A lender copies it once, this process twice.
  [[nodiscard]] bool needs_lender(const HostMove& move) const;
  // A lender for the move; nullptr if there is none.
  [[nodiscard]] Lender* lender_for(const HostMove& move);
  void leave_to(Lender& lender, const Chunk& chunk);
  // Ranks help: they get a part of what this process would copy by itself.
  void share_own_copies();
  // How all ranks of this process wait.
  [[nodiscard]] copy::Waits all_wait() const;
  [[nodiscard]] bool leave_to_waiting_ranks();
  // Bytes that it may get now.
  [[nodiscard]] std::uint64_t may_lend_to(Lender& lender, bool helped);
  std::uint64_t lend(Lender& lender, std::uint64_t most);
  // nullopt: the chunk cannot be given, and has been settled or queued elsewhere.
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
  std::vector<std::unique_ptr<Lender>> lenders_;  // in the order of expect()
  std::vector<Lender*> by_rank_;                  // nullptr: lends nothing
  std::deque<Lender*> busy_;                      // with jobs or results
  std::size_t orphans_ = 0;                       // chunks of cancelled moves that a lender still holds
  std::vector<LenderQueue::Finished> finished_;   // kept for its memory, like returned_
  std::vector<Chunk> returned_;
};

}  // namespace outrigger::fabric
