#include "engine/core/reduction_steps.hpp"

#include "engine/core/settlement.hpp"

namespace outrigger::engine {

Reduce reduce(const Operation& operation, const LocalRank& rank, std::span<const Block> operands, const Block& into,
              std::span<const BlockId> names) {
  return Reduce(operation.context, *rank.posted().reduction, operands, into, names);
}

bool is_short_slice(const Context& context, std::uint64_t bytes) {
  const EngineLimits& limits = context.config.limits;
  return bytes != 0 && bytes <= limits.short_slice_bytes && bytes / 2 < limits.segment_bytes;
}

void end_slice(Operation& operation, LocalRank& rank, GroupRank owner, const fabric::MoveOutcome& outcome) {
  const CompletionStatus status = status_of(outcome);
  if (status != CompletionStatus::ok) return rank.fail(status);
  operation.mark_delivered(rank, owner, outcome);
  rank.record.bytes_by_reach[static_cast<std::size_t>(outcome.reach)] += rank.blocks.expected_bytes(owner);
  rank.pairs.set_placed(owner);
}

void end_contribution(Operation& operation, LocalRank& rank, GroupRank source, const fabric::MoveOutcome& outcome) {
  release_source(operation, rank, source, status_of(outcome));
  rank.pairs.end_move();
  rank.fill(source);
}

}  // namespace outrigger::engine
