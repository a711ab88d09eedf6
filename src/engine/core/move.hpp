// Awaited: a block is copied from one rank's memory to another's.
#pragma once

#include <cassert>
#include <coroutine>

#include "engine/core/context.hpp"
#include "engine/core/suspension.hpp"
#include "fabric/fabric.hpp"

namespace outrigger::engine {

class Operation;

// Dropping the coroutine cancels the move.
class Move : private Suspension, private fabric::MoveCompletion {
 public:
  Move(Context& context, const Block& from, const Block& to) : context_(context), from_(from), to_(to) {}
  // The source's block for the destination, some or all of which may have been sent eagerly.
  Move(const Operation& operation, GroupRank source, GroupRank destination, const Block& from, const Block& to);
  ~Move() {
    if (in_flight_) context_.fabric.cancel(*this);
  }

  [[nodiscard]] bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> waiter);
  [[nodiscard]] fabric::MoveOutcome await_resume() const { return outcome_; }

 private:
  void moved(const fabric::MoveOutcome& outcome) override {
    assert(in_flight_ && "a move ends once");
    outcome_ = outcome;
    in_flight_ = false;
    context_.scheduler.make_ready(*this);
  }

  Context& context_;
  const Block from_;
  const Block to_;
  const Operation* eager_in_ = nullptr;  // null: not a block that may be sent eagerly
  GroupRank source_;
  GroupRank destination_;
  fabric::MoveOutcome outcome_;
  bool in_flight_ = false;
};

}  // namespace outrigger::engine
