// Moves between ranks of the host, shared out between ranks that wait, ranks' copiers on spare cores and the network
// card (copy/policy.hpp):
//
//   a chunk is copied  by a rank that lends (rank_lender.hpp). The destination comes before the source.
//   ... is moved       by the card (rank_moves.hpp), little at a time.
//   ... waits          while all of them have enough, or may begin to wait.
//
// A chunk that a rank has not copied is moved by the card, which also finds out whether the memory is at fault. Only
// ranks that this service process serves lend to it.
//
// Thread rule: one thread. Completions are delivered from deliver() only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <unordered_map>
#include <vector>

#include "copy/policy.hpp"
#include "fabric/dpu/dpu_options.hpp"
#include "fabric/dpu/rank_lender.hpp"
#include "fabric/dpu/rank_moves.hpp"
#include "fabric/dpu/remote_ranks.hpp"
#include "fabric/finished_moves.hpp"

namespace outrigger::fabric::dpu {

class HostCopies {
 public:
  // Copies of at most this size delay a rank's own progress little.
  static constexpr std::uint64_t kChunkBytes = 256U << 10;
  // Two at a time keep the card busy.
  static constexpr std::uint64_t kCardChunkBytes = copy::kMostBytesByCard / 2;
  // Waiting moves that a step looks at, in turn: many may wait while all ranks compute.
  static constexpr std::size_t kLooksAStep = 32;

  HostCopies(const DpuOptions& options, RemoteRanks& ranks, RankMoves& moves)
      : options_(options), ranks_(ranks), moves_(moves) {}

  void begin(const Block& from, const Block& to, MoveCompletion& completion);
  // None of its bytes are read or written any more after the return, or a rank that still copies is stopped.
  void cancel(MoveCompletion& completion);
  // A cancelled move to the rank is still in the hands of a stopped one.
  [[nodiscard]] bool writes_late_to(WorldRank rank) const;
  // For a replacement process, as RankLender::take_over().
  void take_over(RemoteRank& rank, Rma::Done done);
  // The rank goes away.
  static void drop(RemoteRank& rank);
  // Releases what the moves hold, before closing.
  void clear();

  // Each does all that is possible now, and returns true if that was anything.
  bool step();
  [[nodiscard]] bool deliver() { return finished_.deliver(); }
  [[nodiscard]] std::size_t size() const { return shared_.size() + finished_.size(); }

 private:
  // A move whose chunks are shared out. The card's other moves are left to moves_.
  struct Shared {
    Block from;
    Block to;
    MoveCompletion* completion = nullptr;  // nullptr if cancelled
    Clock::time_point begun;
    std::uint64_t started_bytes = 0;
    std::uint32_t open_chunks = 0;
    std::uint64_t copied_bytes = 0;  // by ranks
    MoveOutcome outcome{MoveStatus::ok, Reach::copier};
    [[nodiscard]] bool has_more() const { return started_bytes < from.bytes; }
  };
  // A chunk that the card moves.
  struct ByCard final : MoveCompletion {
    ByCard(HostCopies& copies, std::uint64_t shared, std::uint64_t byte_count)
        : owner(copies), move(shared), bytes(byte_count) {}
    void moved(const MoveOutcome& outcome) override { owner.card_ended(*this, outcome); }
    HostCopies& owner;
    std::uint64_t move;
    std::uint64_t bytes;
  };

  [[nodiscard]] Shared* find(std::uint64_t id);
  void check_range(const Block& block, const std::function<void(bool)>& then);
  void leave_to_card(std::uint64_t id);
  void share_out(Clock::time_point now);
  // False: the chunk has to wait.
  [[nodiscard]] bool start_chunk(std::uint64_t id, Shared& move, Clock::time_point now);
  [[nodiscard]] RankLender* lender_of(WorldRank rank);
  RankLender& make_lender(RemoteRank& rank);
  [[nodiscard]] bool give(RankLender& lender, bool pull, const Shared& move, const RankLender::Part& part);
  void move_returned_by_card();
  void move_by_card(const RankLender::Part& part);
  void copy_ended(const RankLender::Part& part, bool copied);
  void card_ended(const ByCard& chunk, const MoveOutcome& outcome);
  void chunk_ended(std::uint64_t id, const MoveOutcome& outcome);
  void cancel_chunks(std::uint64_t id);

  const DpuOptions& options_;
  RemoteRanks& ranks_;
  RankMoves& moves_;
  std::uint64_t next_ = 1;
  std::unordered_map<std::uint64_t, Shared> shared_;
  std::deque<std::uint64_t> waiting_;      // with chunks to be started, looked at in turn
  std::deque<RankLender::Part> returned_;  // not copied by the ranks that had them: for the card
  std::list<ByCard> by_card_;
  std::uint64_t card_bytes_ = 0;
  bool closed_ = false;
  FinishedMoves finished_;
};

}  // namespace outrigger::fabric::dpu
