#include "engine/algorithms/bcast_by_segments.hpp"

#include <algorithm>

#include "engine/relay/broadcast_shapes.hpp"

namespace outrigger::engine {
namespace {

// Gets the segments of this service process from the root, in order. Two of these run, so that one reads while the
// other's segment is passed on.
Task scatter(Operation& operation, SegmentedBlock& block, BroadcastPlan plan) {
  const Membership& group = operation.membership();
  const std::uint32_t stride = segments_a_round(group);
  for (std::uint32_t own = own_segment(group, block.source(), 0); own < block.count(); own += stride) {
    if (block.is_fetched(own) || !plan.is_home(group, block.segment(own))) continue;
    block.fetch(own, kAtSource);
    co_await block.arrived(own);
  }
}

// Gets the other segments of a round from their homes. This runs after the own one, so the homes have read them by now.
Task allgather(Operation& operation, SegmentedBlock& block, BroadcastPlan plan, std::uint32_t round) {
  const Membership& group = operation.membership();
  const std::uint32_t own = own_segment(group, block.source(), round);
  if (own < block.count() && plan.is_home(group, block.segment(own))) co_await block.arrived(own);
  const std::uint32_t first = round * segments_a_round(group);
  const std::uint32_t end = std::min(block.count(), first + segments_a_round(group));
  for (std::uint32_t index = first; index < end; ++index) block.fetch(index, plan.route);
}

}  // namespace

Task bcast_by_segments(Operation& operation, LocalRank& rank,
                       BroadcastPlan (*plan)(const Operation& operation, const LocalRank& rank, GroupRank root)) {
  operation.announce_send_blocks(rank);  // the root: my block may be read; the others: I am here
  const std::optional<GroupRank> root = co_await rank.next_ready_peer();
  if (root) {  // neither at the root nor without bytes
    const BroadcastPlan way = plan(operation, rank, *root);
    SegmentedBlock block(operation, rank, *root, way.segments);
    if (way.is_home == nullptr) {
      block.fetch_all(way.route);
    } else {
      block.fetch_shared(way.route);  // other ranks of this service process may have been first
      const std::uint32_t a_round = segments_a_round(operation.membership());
      for (std::uint32_t round = 0; round * a_round < block.count(); ++round)
        rank.spawn(allgather(operation, block, way, round));
      rank.spawn(scatter(operation, block, way));
      rank.spawn(scatter(operation, block, way));
    }
    co_await block.complete();
    const fabric::MoveOutcome outcome = block.outcome();
    operation.mark_block(rank, *root, outcome);
    operation.release(rank, *root, outcome);
    operation.count_filled(rank, *root, outcome);
  }
  co_await rank.filled_and_released();
  operation.complete(rank);
}

}  // namespace outrigger::engine
