// An allreduce in which every rank reduces everything itself, with a planted bug.
#include <array>
#include <optional>
#include <vector>

#include "engine/core/operation.hpp"
#include "engine/core/reduction_steps.hpp"
#include "planted.hpp"

namespace outrigger::sim {
namespace {

using engine::LocalRank;
using engine::Operation;
using engine::Task;

// All contributions are here. Ranks own slices; here these are only marked.
Task reduce_all(Operation& operation, LocalRank& rank, std::vector<GroupRank> sources, bool release_early) {
  const fabric::MoveOutcome hoped_for;
  co_await operation.enter_window(rank);
  if (release_early) {
    for (const GroupRank source : sources) operation.release(rank, source, hoped_for);  // the bug
  }
  const Block into{rank.posted().receive.base, rank.posted().send.block_bytes};
  const Block first = rank.blocks.contribution(sources[0]);
  fabric::MoveOutcome outcome = co_await operation.move(first, into);
  for (std::size_t i = 1; i < sources.size(); ++i) {
    const std::array<Block, 2> operands{into, rank.blocks.contribution(sources[i])};
    outcome = co_await reduce(operation, rank, operands, into);
  }
  operation.leave_window(rank);
  for (std::size_t i = 0; i < operation.membership().size(); ++i) {
    const GroupRank owner = engine::group_rank(i);
    if (rank.blocks.expected_bytes(owner) != 0) end_slice(operation, rank, owner, outcome);
  }
  end_contributions(operation, rank, outcome);
}

Task planted_allreduce(Operation& operation, LocalRank& rank, bool in_order_of_arrival, bool release_early) {
  operation.announce_send_blocks(rank);
  std::vector<GroupRank> sources;
  for (;;) {
    const std::optional<GroupRank> source = co_await rank.next_ready_peer();
    if (!source) break;
    sources.push_back(*source);
  }
  if (!in_order_of_arrival) {
    for (std::size_t i = 0; i < sources.size(); ++i) sources[i] = engine::group_rank(i);
  }
  if (!sources.empty()) rank.spawn(reduce_all(operation, rank, std::move(sources), release_early));
  co_await rank.filled_and_released();
  operation.complete(rank);
}

}  // namespace

// The bug: sums depend on the order of arrival.
Task planted_order_of_arrival(Operation& operation, LocalRank& rank) {
  return planted_allreduce(operation, rank, true, false);
}

Task planted_contribution_released_early(Operation& operation, LocalRank& rank) {
  return planted_allreduce(operation, rank, false, true);
}

}  // namespace outrigger::sim
