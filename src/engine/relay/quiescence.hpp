// After a restart this service process knows from the marks which blocks its ranks have, but not which peers still read
// them. It asks all peers. Each answers when it reads nothing here any more. Until all have answered, no rank of a
// replayed operation completes.
#pragma once

#include <coroutine>
#include <set>

#include "engine/core/suspension.hpp"
#include "protocol/ids.hpp"

namespace outrigger::engine {

class Operation;

class Quiescence {
 public:
  explicit Quiescence(Operation& operation) : operation_(operation) {}

  // Awaited: all peers have answered, so receive buffers may be overwritten with intermediate bytes.
  class Quiet : private Suspension {
   public:
    explicit Quiet(Quiescence& quiescence) : quiescence_(quiescence) {}
    [[nodiscard]] bool await_ready() const { return quiescence_.reached(); }
    void await_suspend(std::coroutine_handle<> waiter) {
      handle = waiter;
      quiescence_.waiting_.push_back(*this);
    }
    void await_resume() const {}

   private:
    Quiescence& quiescence_;
  };
  [[nodiscard]] Quiet quiet() { return Quiet(*this); }

  // This service process has been restarted.
  void ask_all();
  [[nodiscard]] bool reached() const { return unanswered_.empty(); }
  void on_answer(SpId from);
  // A peer has been restarted too: it may have lost the question.
  void ask_again(SpId peer);

  // A restarted peer has asked.
  void owe_answer(SpId peer) { owed_.insert(peer); }
  [[nodiscard]] bool owes_answer(SpId peer) const { return owed_.contains(peer); }
  void answer(SpId peer);

 private:
  Operation& operation_;
  SuspensionQueue waiting_;
  std::set<SpId> unanswered_;  // may still read here
  std::set<SpId> owed_;        // have asked while this process read their ranks' memory
};

}  // namespace outrigger::engine
