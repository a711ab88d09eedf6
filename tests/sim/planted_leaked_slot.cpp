// ring_pull with a planted bug: forgets to leave the window after every move of a rank to itself + 3.
#include "engine/operation.hpp"
#include "planted.hpp"

namespace outrigger::sim {
namespace {

engine::Task pull(engine::Operation& operation, engine::LocalRank& rank, GroupRank source) {
  const Block from = rank.pull_from(source);
  const Block to = rank.pull_to(source);
  const fabric::MoveOutcome outcome = co_await operation.move(from, to);
  if (source.value() != rank.me().value() + 3) operation.leave_window(rank);  // the bug: not always
  operation.mark_delivered(rank, source, outcome);
  operation.release(rank, source, outcome);
  operation.count_filled(rank, source, outcome);
}

}  // namespace

engine::Task planted_leaked_slot(engine::Operation& operation, engine::LocalRank& rank) {
  operation.announce_send_blocks(rank);
  for (;;) {
    const std::optional<GroupRank> source = co_await rank.next_ready_peer();
    if (!source) break;
    co_await operation.enter_window(rank);
    rank.spawn(pull(operation, rank, *source));
  }
  co_await rank.filled_and_released();
  operation.complete(rank);
}

}  // namespace outrigger::sim
