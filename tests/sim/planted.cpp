// ring_pull with a planted bug in the pull of a block.
#include "planted.hpp"

#include <optional>
#include <vector>

#include "engine/core/operation.hpp"

namespace outrigger::sim {
namespace {

using engine::LocalRank;
using engine::Operation;
using engine::Task;

Task pull_released_early(Operation& operation, LocalRank& rank, GroupRank source) {
  const Block from = rank.blocks.pull_from(source);
  const Block to = rank.blocks.pull_to(source);
  const fabric::MoveOutcome hoped_for;
  operation.release(rank, source, hoped_for);  // the bug: before the bytes have moved
  const fabric::MoveOutcome outcome = co_await operation.move(from, to);
  operation.leave_window(rank);
  operation.mark_block(rank, source, outcome);
  operation.count_filled(rank, source, outcome);
}

Task pull_not_always_marked(Operation& operation, LocalRank& rank, GroupRank source) {
  const Block from = rank.blocks.pull_from(source);
  const Block to = rank.blocks.pull_to(source);
  const fabric::MoveOutcome outcome = co_await operation.move(from, to);
  operation.leave_window(rank);
  // The bug: one block in eight is delivered without a mark.
  if ((source.value() + rank.me().value()) % 8 != 3) operation.mark_block(rank, source, outcome);
  operation.release(rank, source, outcome);
  operation.count_filled(rank, source, outcome);
}

Task pull_staying_in_window(Operation& operation, LocalRank& rank, GroupRank source) {
  const Block from = rank.blocks.pull_from(source);
  const Block to = rank.blocks.pull_to(source);
  const fabric::MoveOutcome outcome = co_await operation.move(from, to);
  // The bug: a rank's pull from itself + 3 never leaves.
  if (source.value() != rank.me().value() + 3) operation.leave_window(rank);
  operation.mark_block(rank, source, outcome);
  operation.release(rank, source, outcome);
  operation.count_filled(rank, source, outcome);
}

Task pull_right(Operation& operation, LocalRank& rank, GroupRank source) {
  co_await operation.enter_window(rank);
  const Block from = rank.blocks.pull_from(source);
  const Block to = rank.blocks.pull_to(source);
  const fabric::MoveOutcome outcome = co_await operation.move(from, to);
  operation.leave_window(rank);
  operation.mark_block(rank, source, outcome);
  operation.release(rank, source, outcome);
  operation.count_filled(rank, source, outcome);
}

// Like ring_pull, with another pull.
Task pull_all(Operation& operation, LocalRank& rank, Task (*pull)(Operation&, LocalRank&, GroupRank)) {
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

}  // namespace

// The bug: nothing moves before all have posted, so ranks wait for other ranks' late peers.
Task planted_idle_until_all(Operation& operation, LocalRank& rank) {
  operation.announce_send_blocks(rank);
  std::vector<GroupRank> sources;
  for (;;) {
    const std::optional<GroupRank> source = co_await rank.next_ready_peer();
    if (!source) break;
    sources.push_back(*source);
  }
  for (const GroupRank source : sources) rank.spawn(pull_right(operation, rank, source));
  co_await rank.filled_and_released();
  operation.complete(rank);
}

Task planted_early_release(Operation& operation, LocalRank& rank) {
  return pull_all(operation, rank, pull_released_early);
}

Task planted_lost_mark(Operation& operation, LocalRank& rank) {
  return pull_all(operation, rank, pull_not_always_marked);
}

Task planted_leaked_slot(Operation& operation, LocalRank& rank) {
  return pull_all(operation, rank, pull_staying_in_window);
}

}  // namespace outrigger::sim
