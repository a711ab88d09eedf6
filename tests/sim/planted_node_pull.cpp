// node_pull with planted bugs in how blocks are passed on within a node.
#include "engine/core/operation.hpp"
#include "planted.hpp"

namespace outrigger::sim {
namespace {

using engine::Copies;
using engine::LocalRank;
using engine::Operation;
using engine::Task;

std::optional<SpId> ask_home(const Operation& operation, GroupRank source, std::uint32_t /*piece*/, std::uint32_t hop) {
  return hop == 0 ? std::optional(operation.home_of(source)) : std::nullopt;
}

std::optional<SpId> ask_nobody(const Operation& /*operation*/, GroupRank /*source*/, std::uint32_t /*piece*/,
                               std::uint32_t /*hop*/) {
  return std::nullopt;
}

Task receive(Operation& operation, LocalRank& rank, GroupRank source, Copies::Route route, bool let_go_early) {
  Copies::Piece whole;
  whole.source = source;
  whole.bytes = rank.pull_bytes(source);
  Copies::Copy copy(operation.copies(), rank, whole, route);
  co_await copy.found();
  const Block from = copy.from();
  const Block to = copy.to();
  const fabric::MoveOutcome hoped_for;
  if (let_go_early) copy.moved(hoped_for);  // the bug: before the bytes have moved
  co_await operation.enter_window(rank);
  const fabric::MoveOutcome outcome = co_await operation.move(from, to);
  operation.leave_window(rank);
  operation.mark_delivered(rank, source, outcome);
  operation.release(rank, source, outcome);
  operation.count_filled(rank, source, outcome);
  if (!let_go_early) copy.moved(outcome);
}

Task receive_all(Operation& operation, LocalRank& rank, Copies::Route route, bool let_go_early) {
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
