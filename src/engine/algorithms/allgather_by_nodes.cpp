#include "engine/algorithms/allgather_by_nodes.hpp"

namespace outrigger::engine {
namespace {

// Gets the block of a rank of this node from that rank.
Task copy_within_node(Operation& operation, LocalRank& rank, GroupRank source) {
  const Block from = rank.blocks.pull_from(source);
  const bool near = operation.is_near(from);
  co_await operation.enter_window(rank, near);
  const Block to = rank.blocks.pull_to(source);
  const fabric::MoveOutcome outcome = co_await operation.move(from, to);
  operation.leave_window(rank, near);
  operation.mark_block(rank, source, outcome);
  // otherwise released with the others below
  if (outcome.status != fabric::MoveStatus::ok) operation.release(rank, source, outcome);
  operation.count_filled(rank, source, outcome);
}

// Releases all sources of this node after this rank has all blocks.
void release_own_node(Operation& operation, LocalRank& rank) {
  const Membership& group = operation.membership();
  const fabric::MoveOutcome fine;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const GroupRank source = group_rank(i);
    if (group.on_own_node(source) && rank.pairs[source].placed) operation.release(rank, source, fine);
  }
}

}  // namespace

Task allgather_by_nodes(Operation& operation, LocalRank& rank, Task (*receive)(Operation&, LocalRank&, GroupRank),
                        EagerSends eager) {
  operation.announce_send_blocks(rank, eager);  // my block may be read
  for (;;) {
    const std::optional<GroupRank> source = co_await rank.next_ready_peer();  // the nearest that has arrived
    if (!source) break;                                                       // all blocks are on their way
    const bool near = operation.membership().on_own_node(*source);
    rank.spawn(near ? copy_within_node(operation, rank, *source) : receive(operation, rank, *source));
  }
  co_await rank.filled();
  release_own_node(operation, rank);  // this rank reads nothing from its node any more
  co_await rank.filled_and_released();
  operation.complete(rank);
}

}  // namespace outrigger::engine
