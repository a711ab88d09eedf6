#include "engine/core/reduction_steps.hpp"

#include <algorithm>
#include <vector>

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

bool sends_short_slices(const Operation& operation, const Reduction& reduction) {
  const Membership& membership = operation.membership();
  return !is_exact(reduction) || membership.services().size() == membership.size();
}

bool sends_contributions(const Operation& operation, const PostedOperation& posted, std::uint64_t slice_bytes) {
  if (!is_short_slice(operation.context, slice_bytes)) return false;
  if (slice_bytes <= operation.context.config.limits.shortest_slice_bytes) return true;
  const std::uint64_t longest_bytes = posted.receive.extents.front().bytes;
  return posted.receive.block_bytes <= longest_bytes * operation.membership().services().size();
}

void end_slice(Operation& operation, LocalRank& rank, GroupRank owner, const fabric::MoveOutcome& outcome) {
  const CompletionStatus status = status_of(outcome);
  if (status != CompletionStatus::ok) return rank.fail(status);
  operation.mark_block(rank, owner, outcome);
  rank.record.bytes_by_reach[static_cast<std::size_t>(outcome.reach)] += rank.blocks.expected_bytes(owner);
  rank.pairs.set_placed(owner);
  operation.reconsider_replicas(owner);
}

namespace {

bool is_taken(const LocalRank& rank, GroupRank source) {
  return rank.pairs[source].receive == ReceiveState::moving;
}

void end_contribution(LocalRank& rank, GroupRank source) {
  rank.pairs.end_move();
  rank.fill(source);
}

}  // namespace

void end_contributions(Operation& operation, LocalRank& rank, const fabric::MoveOutcome& outcome) {
  const CompletionStatus status = status_of(outcome);
  const Membership& membership = operation.membership();
  const auto taken = [&rank](GroupRank source) { return is_taken(rank, source); };
  for (std::uint32_t peer = 0; peer < membership.peers().size(); ++peer) {
    const std::vector<GroupRank>& sources = membership.peers()[peer].ranks;
    if (sources.size() == 1 || !std::ranges::all_of(sources, taken)) continue;
    release_service(operation, rank, peer, status);
    for (const GroupRank source : sources) end_contribution(rank, source);
  }
  for (std::size_t i = 0; i < rank.blocks.contributors(); ++i) {
    const GroupRank source = group_rank(i);
    if (!is_taken(rank, source)) continue;
    release_source(operation, rank, source, status);
    end_contribution(rank, source);
  }
}

}  // namespace outrigger::engine
