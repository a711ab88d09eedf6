// The operations of one group that a local rank has completed. Completions are out of order only within the outstanding
// ones, so one number and the runs above it suffice.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "protocol/collective.hpp"

namespace outrigger::engine {

class Progress {
 public:
  // Failed operations that are remembered for a peer's late question. Beyond the limit the oldest is forgotten and the
  // answer is `ok`.
  static constexpr std::size_t kRememberedFailures = 64;

  [[nodiscard]] bool is_complete(std::uint64_t sequence) const {
    if (sequence < below_) return true;
    const auto after = runs_.upper_bound(sequence);
    return after != runs_.begin() && std::prev(after)->second > sequence;
  }

  [[nodiscard]] CompletionStatus status_of(std::uint64_t sequence) const {
    const auto found = failures_.find(sequence);
    return found == failures_.end() ? CompletionStatus::ok : found->second;
  }

  void complete(std::uint64_t sequence, CompletionStatus status = CompletionStatus::ok) {
    if (status != CompletionStatus::ok) {
      failures_[sequence] = status;
      if (failures_.size() > kRememberedFailures) failures_.erase(failures_.begin());
    }
    if (is_complete(sequence)) return;
    if (sequence == below_) {
      ++below_;
      absorb_first_run();
      return;
    }
    auto next = runs_.find(sequence + 1);
    std::uint64_t end = sequence + 1;
    if (next != runs_.end()) {
      end = next->second;
      runs_.erase(next);
    }
    const auto after = runs_.upper_bound(sequence);
    if (after != runs_.begin() && std::prev(after)->second == sequence) {
      std::prev(after)->second = end;
    } else {
      runs_[sequence] = end;
    }
  }

  // After a restart: everything below `next` is complete, except reopened operations.
  void complete_below(std::uint64_t next) {
    while (!runs_.empty() && runs_.begin()->first < next) {
      if (runs_.begin()->second > next) next = runs_.begin()->second;
      runs_.erase(runs_.begin());
    }
    if (next > below_) below_ = next;
    absorb_first_run();
  }

  // An operation below is posted again, so it is not complete.
  void reopen(std::uint64_t sequence) {
    if (!is_complete(sequence)) return;
    if (sequence < below_) {
      if (below_ > sequence + 1) runs_[sequence + 1] = below_;
      below_ = sequence;
      return;
    }
    const auto run = std::prev(runs_.upper_bound(sequence));
    const std::uint64_t begin = run->first;
    const std::uint64_t end = run->second;
    runs_.erase(run);
    if (begin < sequence) runs_[begin] = sequence;
    if (sequence + 1 < end) runs_[sequence + 1] = end;
  }

  std::uint64_t next_post = 0;       // sequence that the rank must post next
  std::uint64_t restored_below = 0;  // replayed posts are below this sequence
  bool freed = false;                // the rank has freed the communicator

 private:
  void absorb_first_run() {
    while (!runs_.empty() && runs_.begin()->first <= below_) {
      if (runs_.begin()->second > below_) below_ = runs_.begin()->second;
      runs_.erase(runs_.begin());
    }
  }

  std::uint64_t below_ = 0;
  std::map<std::uint64_t, std::uint64_t> runs_;  // [first, second), above below_, disjoint and not adjacent
  std::map<std::uint64_t, CompletionStatus> failures_;
};

}  // namespace outrigger::engine
