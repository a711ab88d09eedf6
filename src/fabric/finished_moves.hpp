// Ended moves whose callers have not been notified yet.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <deque>

#include "fabric/block_mover.hpp"

namespace outrigger::fabric {

class FinishedMoves {
 public:
  void add(MoveCompletion& completion, MoveOutcome outcome) { moves_.push_back(Finished{&completion, outcome}); }
  // moved() will not be called.
  void forget(const MoveCompletion& completion) {
    std::erase_if(moves_, [&](const Finished& finished) { return finished.completion == &completion; });
  }
  [[nodiscard]] bool empty() const { return moves_.empty(); }
  [[nodiscard]] std::size_t size() const { return moves_.size(); }

  // False if there were none.
  bool deliver() {
    bool any = false;
    // Moves that end meanwhile wait for the next call, so a callee that retries a failing move cannot block the loop.
    for (std::size_t left = moves_.size(); left > 0 && !moves_.empty(); --left) {
      // Removed first: the callee may start and cancel moves.
      const Finished finished = moves_.front();
      moves_.pop_front();
      finished.completion->moved(finished.outcome);
      any = true;
    }
    return any;
  }

 private:
  struct Finished {
    MoveCompletion* completion;
    MoveOutcome outcome;
  };

  std::deque<Finished> moves_;
};

}  // namespace outrigger::fabric
