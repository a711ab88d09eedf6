// A rank that lends its threads to copy, as its service process sees it (copy/board.hpp): jobs given, results
// collected, jobs taken back when nobody gets on with them. They are its copier's, and some those of threads that wait,
// when they are asked; where there is no copier, all are theirs.
//
// Nothing that the rank writes there is believed: the counts are kept here, and what does not fit them is as if it had
// not been said. A rank that lies about its copies harms its own memory.
//
// Thread rule: one thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "copy/board.hpp"
#include "copy/policy.hpp"
#include "fabric/host/moves.hpp"
#include "protocol/ids.hpp"

namespace outrigger::fabric {

class LenderBoard {
 public:
  using Clock = std::chrono::steady_clock;

  // Between looks whether the thread that holds a job is still there.
  static constexpr std::chrono::milliseconds kLookInterval{20};

  // `pid`: of the rank. The board must stay where it is; what another service process has given is taken back. When
  // nothing was finished for as long as `patience`, what has not been taken is taken back.
  LenderBoard(CopyBoard& board, pid_t pid, std::chrono::milliseconds patience,
              copy::Lenders lenders = copy::Lenders::copiers)
      : board_(&board),
        pid_(pid),
        patience_(patience),
        lenders_(lenders),
        collected_(take_back_all(board)),
        end_(collected_),
        given_(collected_) {}

  // There would be work for a copier: the rank may start one.
  void want();
  // May it be given jobs now?
  [[nodiscard]] bool usable();

  // Given and neither collected nor taken back.
  [[nodiscard]] std::uint32_t pending() const { return end_ - collected_; }
  [[nodiscard]] std::uint32_t room() const { return kCopyJobs - pending(); }
  // With usable() and room() only. The copier looks after ring().
  void give(const CopyJob& job, const Chunk& chunk);
  void ring();
  // Does the rank do nothing but wait, and would copy?
  [[nodiscard]] bool rank_waits() const { return board_->rank_waits.load(std::memory_order_relaxed) != 0; }
  // Its waiting threads may take all that has been given so far, beside the copier.
  void ask_rank();
  // What nobody has begun is the copier's alone.
  void ask_no_more();
  // Everything that is pending has been taken, and not by the copier, which sleeps.
  [[nodiscard]] bool in_ranks_hands() const;

  // Until all that is pending is finished or the time is over, asleep. Dear where timers are.
  void wait(std::chrono::microseconds at_most);
  // Grows when it takes or finishes a job.
  [[nodiscard]] std::uint32_t steps() const {
    return board_->taken.load(std::memory_order_relaxed) + board_->events.load(std::memory_order_relaxed);
  }
  // All that is pending is finished.
  [[nodiscard]] bool all_finished() const;
  // Of what is pending and has no result yet.
  [[nodiscard]] std::uint64_t unfinished_bytes() const;

  struct Finished {
    Chunk chunk;
    CopyResult result = CopyResult::none;
  };
  // Adds to `finished` what the copier has finished, and to `returned` what is taken back from one that does not get
  // on. True: anything.
  bool collect(std::vector<Finished>& finished, std::vector<Chunk>& returned);
  // There is something to collect. In one order with what takers do when they have finished something.
  [[nodiscard]] bool has_news() const;
  // Until patience is over with what is pending; nothing: there is nothing to be patient about.
  [[nodiscard]] std::optional<Clock::duration> patience_left() const;
  // Adds to `returned` all that the copier has not taken; what is pending then is in its hands.
  void take_back(std::vector<Chunk>& returned);
  // It has a job in hand and does not get on: its process is stopped, or has just ended.
  [[nodiscard]] bool stuck() const { return stuck_; }
  // What is pending, oldest first, `index` below pending().
  [[nodiscard]] Chunk& chunk(std::uint32_t index) { return chunks_[(collected_ + index) % kCopyJobs]; }

 private:
  [[nodiscard]] bool thread_lives() const;
  [[nodiscard]] bool has_result(std::uint32_t number) const;
  bool collect_finished(std::vector<Finished>& finished);
  void take_from_the_dead(std::vector<Chunk>& returned);

  CopyBoard* board_;
  pid_t pid_;
  std::chrono::milliseconds patience_;
  copy::Lenders lenders_;
  pid_t tid_ = 0;
  bool wanted_ = false;
  bool gone_ = false;
  bool stuck_ = false;
  bool asked_ = false;
  // Modulo 2^32. [collected_, end_) is pending; [end_, given_) was taken back while older jobs were in hand.
  std::uint32_t collected_;
  std::uint32_t end_;
  std::uint32_t given_;
  Clock::time_point last_progress_;
  Clock::time_point last_look_;
  std::array<Chunk, kCopyJobs> chunks_{};
};

struct Lender {
  Lender(WorldRank of, LenderBoard its_board, Moves& moves) : rank(of), board(its_board), queue(moves) {}

  [[nodiscard]] bool may_reach(WorldRank other) const;

  WorldRank rank;
  LenderBoard board;
  ChunkQueue queue;                    // to be given when there is room
  bool listed = false;                 // among those that have something to do
  std::vector<WorldRank> unreachable;  // whose memory it may not touch
};

}  // namespace outrigger::fabric
