// After a restart this service process knows from the marks which of its ranks have which blocks, but not who still
// reads there. It asks its peers, each answers when it reads nothing there (any more), and until all have answered no
// rank of a replayed operation completes.
#pragma once

#include <set>

#include "protocol/ids.hpp"

namespace outrigger::engine {

class Operation;

class Quiescence {
 public:
  explicit Quiescence(Operation& operation) : operation_(operation) {}

  // This service process has been restarted.
  void ask_all();
  [[nodiscard]] bool reached() const { return unanswered_.empty(); }
  void on_answer(SpId from);
  // A peer has been restarted, too: it may have lost the question.
  void ask_again(SpId peer);

  // A peer has been restarted and has asked.
  void owe_answer(SpId peer) { owed_.insert(peer); }
  [[nodiscard]] bool owes_answer(SpId peer) const { return owed_.contains(peer); }
  void answer(SpId peer);

 private:
  Operation& operation_;
  std::set<SpId> unanswered_;  // may still read here
  std::set<SpId> owed_;        // have asked while something here read there
};

}  // namespace outrigger::engine
