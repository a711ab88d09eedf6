// node_pull with planted bugs in the passing of blocks within a node.
#include "engine/core/operation.hpp"
#include "engine/relay/replicas.hpp"
#include "planted.hpp"

namespace outrigger::sim {
namespace {

using engine::Fetch;
using engine::LocalRank;
using engine::Membership;
using engine::Operation;
using engine::Route;
using engine::Segment;
using engine::Task;

std::optional<SpId> ask_home(const Membership& group, const Segment& block, std::uint32_t hop) {
  const std::vector<SpId>& siblings = group.services_of_node();
  return hop == 0 ? std::optional(siblings[block.source.value() % siblings.size()]) : std::nullopt;
}

std::optional<SpId> ask_nobody(const Membership& /*group*/, const Segment& /*block*/, std::uint32_t /*hop*/) {
  return std::nullopt;
}

Task receive(Operation& operation, LocalRank& rank, GroupRank source, Route route, bool let_go_early) {
  Segment whole;
  whole.source = source;
  whole.bytes = rank.blocks.pull_bytes(source);
  Fetch fetch(operation.replicas(), rank, whole, route);
  co_await fetch.located();
  const Block from = fetch.from();
  const Block to = fetch.to();
  const fabric::MoveOutcome hoped_for;
  if (let_go_early) fetch.moved(hoped_for);  // the bug: before the bytes have moved
  co_await operation.enter_window(rank);
  const fabric::MoveOutcome outcome = co_await operation.move(from, to);
  operation.leave_window(rank);
  operation.mark_block(rank, source, outcome);
  operation.release(rank, source, outcome);
  operation.count_filled(rank, source, outcome);
  if (!let_go_early) fetch.moved(outcome);
}

Task receive_all(Operation& operation, LocalRank& rank, Route route, bool let_go_early) {
  operation.announce_send_blocks(rank);
  for (;;) {
    const std::optional<GroupRank> source = co_await rank.next_ready_peer();
    if (!source) break;
    rank.spawn(receive(operation, rank, *source, route, let_go_early));
  }
  co_await rank.filled_and_released();
  operation.complete(rank);
}

}  // namespace

Task planted_sibling_not_asked(Operation& operation, LocalRank& rank) {
  return receive_all(operation, rank, ask_nobody, false);
}

Task planted_let_go_early(Operation& operation, LocalRank& rank) {
  return receive_all(operation, rank, ask_home, true);
}

}  // namespace outrigger::sim
