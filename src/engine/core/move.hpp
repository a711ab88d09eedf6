// Awaitables that copy a block from one rank's memory to another's, or reduce blocks.
#pragma once

#include <cassert>
#include <coroutine>
#include <span>

#include "engine/core/context.hpp"
#include "engine/core/suspension.hpp"
#include "fabric/block_mover.hpp"

namespace outrigger::engine {

class Operation;

// An operation of the fabric on memory. Dropping the coroutine cancels it.
class InFlight : protected Suspension, protected fabric::MoveCompletion {
 public:
  [[nodiscard]] bool await_ready() const { return false; }
  [[nodiscard]] fabric::MoveOutcome await_resume() const { return outcome_; }

 protected:
  explicit InFlight(Context& context) : context_(context) {}
  ~InFlight() {
    if (in_flight_) context_.fabric.mover.cancel(*this);
  }
  void begin(std::coroutine_handle<> waiter) {
    handle = waiter;
    in_flight_ = true;
  }

  Context& context_;

 private:
  void moved(const fabric::MoveOutcome& outcome) override {
    assert(in_flight_ && "a move ends once");
    outcome_ = outcome;
    in_flight_ = false;
    context_.scheduler.make_ready(*this);
  }

  fabric::MoveOutcome outcome_;
  bool in_flight_ = false;
};

class Move : public InFlight {
 public:
  Move(Context& context, const Block& from, const Block& to) : InFlight(context), from_(from), to_(to) {}
  // Moves the source's block for the destination. The two ranks name eager data that belongs to the block.
  Move(const Operation& operation, GroupRank source, GroupRank destination, const Block& from, const Block& to);
  void await_suspend(std::coroutine_handle<> waiter);

 private:
  const Block from_;
  const Block to_;
  const Operation* eager_in_ = nullptr;  // nullptr if the block may not be sent eagerly
  GroupRank source_;
  GroupRank destination_;
};

// See BlockMover::reduce(). The caller keeps operands and names alive until it is awaited.
class Reduce : public InFlight {
 public:
  Reduce(Context& context, const Reduction& reduction, std::span<const Block> operands, const Block& into,
         std::span<const BlockId> names)
      : InFlight(context), reduction_(reduction), operands_(operands), into_(into), names_(names) {}
  void await_suspend(std::coroutine_handle<> waiter) {
    assert(into_.bytes != 0 && operands_.size() >= 2 && "a reduction has bytes and at least two operands");
    begin(waiter);
    context_.counters.reductions += operands_.size() - 1;
    context_.counters.reduced_bytes += into_.bytes * (operands_.size() - 1);
    context_.fabric.mover.reduce(reduction_, operands_, names_, into_, *this);
  }

 private:
  const Reduction reduction_;
  const std::span<const Block> operands_;
  const Block into_;
  const std::span<const BlockId> names_;
};

}  // namespace outrigger::engine
