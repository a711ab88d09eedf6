#include "engine/algorithms/prefix_chain.hpp"

#include <optional>
#include <vector>

#include "engine/algorithms/reduce_slices.hpp"
#include "engine/core/reduction_steps.hpp"
#include "engine/relay/replicas.hpp"

namespace outrigger::engine {
namespace {

// Number of contributions in a rank's result; 0: it gets none.
std::size_t operands_of(const LocalRank& rank) {
  return index_of(rank.me()) + (rank.posted().collective == Collective::iexscan ? 0 : 1);
}

// The service process of the rank whose result it is.
std::optional<SpId> ask_maker(const Membership& group, const Segment& piece, std::uint32_t hop) {
  return hop == 0 ? std::optional(group.service_of(piece.source)) : std::nullopt;
}

// Makes a result of one contribution, or of two: there the result before is only the first contribution.
Task begin_chain(Operation& operation, SegmentedBlock& result, std::uint32_t index) {
  LocalRank& rank = result.rank();
  const Segment piece = result.segment(index);
  Fetch own(operation.replicas(), rank, piece, kAtSource);
  co_await own.located();
  const std::vector<Block> from = contributions(rank, operands_of(rank), piece);
  const bool near = from.size() == 1 && operation.is_near(from.front());
  co_await operation.enter_window(rank, near);
  const Block to = own.to();
  fabric::MoveOutcome outcome;
  if (from.size() == 1) {
    outcome = co_await operation.move(from.front(), to);
  } else {
    outcome = co_await reduce(operation, rank, from, to);
  }
  operation.leave_window(rank, near);
  own.moved(outcome);
  result.end(index, outcome);
}

// The previous piece and the last contribution; all contributions if the previous piece is not available.
std::vector<Block> operands(const LocalRank& rank, const Fetch& previous, const Segment& piece) {
  const std::size_t count = operands_of(rank);
  if (previous.at_source()) return contributions(rank, count, piece);
  return {previous.from(), contribution(rank, group_rank(count - 1), piece)};
}

Task extend_previous(Operation& operation, SegmentedBlock& result, std::uint32_t index, Route route) {
  LocalRank& rank = result.rank();
  const Segment piece = result.segment(index);
  Segment before = piece;
  before.source = group_rank(index_of(rank.me()) - 1);
  Fetch own(operation.replicas(), rank, piece, kAtSource);
  co_await own.located();
  Fetch previous(operation.replicas(), rank, before, route, Fetch::Use::operand);
  co_await previous.located();
  co_await operation.enter_window(rank);
  const std::vector<Block> both = operands(rank, previous, piece);
  const Block to = own.to();
  const fabric::MoveOutcome outcome = co_await reduce(operation, rank, both, to);
  operation.leave_window(rank);
  own.moved(outcome);
  result.end(index, outcome);
}

Task get_prefix(Operation& operation, SegmentedBlock& result, std::uint32_t index, Route route) {
  return operands_of(result.rank()) <= 2 ? begin_chain(operation, result, index)
                                         : extend_previous(operation, result, index, route);
}

}  // namespace

Task prefix_chain(Operation& operation, LocalRank& rank) {
  return reduce_slices(operation, rank, ask_maker, get_prefix);
}

}  // namespace outrigger::engine
