// A scan or exscan as a chain, with a planted bug: a result is announced before it is computed.
#include <vector>

#include "engine/algorithms/reduce_slices.hpp"
#include "engine/core/reduction_steps.hpp"
#include "engine/relay/replicas.hpp"
#include "planted.hpp"

namespace outrigger::sim {
namespace {

using engine::Fetch;
using engine::LocalRank;
using engine::Operation;
using engine::Route;
using engine::Segment;
using engine::SegmentedBlock;
using engine::Task;

std::optional<SpId> ask_maker(const engine::Membership& group, const Segment& piece, std::uint32_t hop) {
  return hop == 0 ? std::optional(group.service_of(piece.source)) : std::nullopt;
}

Task get_prefix(Operation& operation, SegmentedBlock& result, std::uint32_t index, Route route) {
  LocalRank& rank = result.rank();
  const bool excludes_own = rank.posted().collective == Collective::iexscan;
  const std::size_t count = engine::index_of(rank.me()) + (excludes_own ? 0 : 1);
  const Segment piece = result.segment(index);
  Fetch own(operation.replicas(), rank, piece, engine::kAtSource);
  co_await own.located();
  const Block to = own.to();
  fabric::MoveOutcome outcome;
  own.moved(outcome);  // the bug
  std::vector<Block> operands = contributions(rank, count, piece);
  if (count > 1) {
    Segment before = piece;
    before.source = engine::group_rank(engine::index_of(rank.me()) - 1);
    Fetch previous(operation.replicas(), rank, before, route, Fetch::Use::operand);
    co_await previous.located();
    co_await operation.enter_window(rank);
    if (!previous.at_source()) operands = std::vector<Block>(2, operands.back());
    if (!previous.at_source()) operands.front() = previous.from();
    outcome = co_await reduce(operation, rank, operands, to);
  } else {
    co_await operation.enter_window(rank);
    const Block from = operands.front();
    outcome = co_await operation.move(from, to);
  }
  operation.leave_window(rank);
  result.end(index, outcome);
}

}  // namespace

Task planted_prefix_offered_early(Operation& operation, LocalRank& rank) {
  return reduce_slices(operation, rank, ask_maker, get_prefix);
}

}  // namespace outrigger::sim
