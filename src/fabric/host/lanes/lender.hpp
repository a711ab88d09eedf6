// A rank that lends its threads to copy, as its service process sees it (copy/copy_queue.hpp): jobs given, results
// collected, and jobs taken back when they make no progress. The copier takes jobs, and so do waiting threads on
// request. Without a copier, waiting threads take all jobs.
//
// Nothing that the rank writes there is trusted: counts are kept here, and inconsistent values are ignored. A rank that
// reports false results harms only its own memory.
//
// Thread rule: one thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "copy/copy_queue.hpp"
#include "copy/policy.hpp"
#include "fabric/host/moves.hpp"
#include "protocol/ids.hpp"

namespace outrigger::fabric {

class LenderQueue {
 public:
  using Clock = std::chrono::steady_clock;

  // Interval of checks that the thread that holds a job still exists.
  static constexpr std::chrono::milliseconds kLookInterval{20};

  // `pid`: the rank's. The job queue must stay in place. Jobs that another service process has given are taken back. If
  // nothing was finished for `patience`, jobs that were not taken are taken back.
  LenderQueue(CopyQueue& copy_queue, pid_t pid, std::chrono::milliseconds patience,
              copy::Lenders lenders = copy::Lenders::copiers)
      : copy_queue_(&copy_queue),
        pid_(pid),
        patience_(patience),
        lenders_(lenders),
        collected_(take_back_all(copy_queue)),
        end_(collected_),
        given_(collected_) {}

  // A copier would have work: the rank may start one.
  void want();
  // True if it may be given jobs now.
  [[nodiscard]] bool usable();

  // Jobs given and neither collected nor taken back.
  [[nodiscard]] std::uint32_t pending() const { return end_ - collected_; }
  [[nodiscard]] std::uint32_t room() const { return kCopyJobs - pending(); }
  // Requires usable() and room(). The copier looks for jobs after ring().
  void give(const CopyJob& job, const Chunk& chunk);
  void ring();
  // Does the rank only wait, and would copy?
  [[nodiscard]] copy::Waits rank_waits() const {
    if (copy_queue_->rank_waits.load(std::memory_order_relaxed) != 0) return copy::Waits::at_once;
    return copy_queue_->rank_waits_late.load(std::memory_order_relaxed) != 0 ? copy::Waits::late : copy::Waits::no;
  }
  // Its waiting threads may take all jobs given so far, beside the copier.
  void ask_rank();
  // From now on only the copier may take jobs that are not taken.
  void ask_no_more();
  // All pending jobs have been taken, and not by the copier, which sleeps.
  [[nodiscard]] bool in_ranks_hands() const;

  // Sleeps until all pending jobs are finished or the time is over. Expensive on systems with expensive timers.
  void wait(std::chrono::microseconds at_most);
  // Grows when it takes or finishes a job.
  [[nodiscard]] std::uint32_t steps() const {
    return copy_queue_->taken.load(std::memory_order_relaxed) + copy_queue_->events.load(std::memory_order_relaxed);
  }
  // True if all pending jobs are finished.
  [[nodiscard]] bool all_finished() const;
  // Bytes of pending jobs without a result.
  [[nodiscard]] std::uint64_t unfinished_bytes() const;

  struct Finished {
    Chunk chunk;
    CopyResult result = CopyResult::none;
  };
  // Adds finished jobs to `finished`, and jobs that are taken back for lack of progress to `returned`. False if there
  // were none.
  bool collect(std::vector<Finished>& finished, std::vector<Chunk>& returned);
  // True if there is something to collect. Ordered after the writes of threads that have finished a job.
  [[nodiscard]] bool has_news() const;
  // Time left until pending jobs are taken back; nullopt if there are none.
  [[nodiscard]] std::optional<Clock::duration> patience_left() const;
  // Adds all jobs that are not taken to `returned`; the copier holds the remaining ones.
  void take_back(std::vector<Chunk>& returned);
  // It holds a job and makes no progress: its process is stopped, or has just ended.
  [[nodiscard]] bool stuck() const { return stuck_; }
  // A pending job's chunk, oldest first, `index` below pending().
  [[nodiscard]] Chunk& chunk(std::uint32_t index) { return chunks_[(collected_ + index) % kCopyJobs]; }

 private:
  [[nodiscard]] bool thread_lives() const;
  [[nodiscard]] bool has_result(std::uint32_t number) const;
  bool collect_finished(std::vector<Finished>& finished);
  void take_from_the_dead(std::vector<Chunk>& returned);

  CopyQueue* copy_queue_;
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
  Lender(WorldRank of, LenderQueue its_queue, Moves& moves) : rank(of), copy_queue(its_queue), queue(moves) {}

  [[nodiscard]] bool may_reach(WorldRank other) const;

  WorldRank rank;
  LenderQueue copy_queue;
  ChunkQueue queue;                    // to be given when there is room
  bool listed = false;                 // in the list of busy lenders
  std::vector<WorldRank> unreachable;  // its threads cannot reach these ranks' memory
};

}  // namespace outrigger::fabric
