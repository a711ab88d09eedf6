#include "engine/core/move.hpp"

#include <cassert>

#include "engine/core/operation.hpp"

namespace outrigger::engine {

Move::Move(const Operation& operation, GroupRank source, GroupRank destination, const Block& from, const Block& to)
    : context_(operation.context),
      from_(from),
      to_(to),
      eager_in_(&operation),
      source_(source),
      destination_(destination) {}

void Move::await_suspend(std::coroutine_handle<> waiter) {
  assert(from_.bytes != 0 && from_.bytes == to_.bytes && "a move has bytes, as many at both ends");
  handle = waiter;
  in_flight_ = true;
  ++context_.counters.moves;
  context_.counters.moved_bytes += from_.bytes;
  if (eager_in_ == nullptr) return context_.fabric.move(from_, to_, *this);
  const BlockId block{eager_in_->id(), source_, destination_};
  context_.fabric.move_block(block, context_.service_of(from_.memory.owner), from_, to_, *this);
}

void Move::moved(const fabric::MoveOutcome& outcome) {
  assert(in_flight_ && "a move ends once");
  outcome_ = outcome;
  in_flight_ = false;
  context_.scheduler.make_ready(*this);
}

}  // namespace outrigger::engine
