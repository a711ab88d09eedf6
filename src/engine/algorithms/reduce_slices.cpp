#include "engine/algorithms/reduce_slices.hpp"

#include <algorithm>
#include <vector>

#include "engine/core/reduction_steps.hpp"
#include "engine/relay/replicas.hpp"

namespace outrigger::engine {

Block contribution(const LocalRank& rank, GroupRank source, const Segment& piece) {
  const PairExtent& slice = rank.posted().receive.extents[index_of(piece.source)];
  Block block = rank.blocks.contribution(source);
  block.memory.address += static_cast<std::uint64_t>(slice.offset_bytes) + piece.offset_bytes;
  block.bytes = piece.bytes;
  return block;
}

std::vector<Block> contributions(const LocalRank& rank, std::size_t count, const Segment& piece) {
  std::vector<Block> all;
  all.reserve(count);
  for (std::size_t i = 0; i < count; ++i) all.push_back(contribution(rank, group_rank(i), piece));
  return all;
}

namespace {

std::uint64_t pieces_of(const Operation& operation, std::uint64_t slice_bytes) {
  const std::uint64_t piece_bytes = std::max<std::uint64_t>(1, operation.context.config.limits.segment_bytes);
  return std::clamp<std::uint64_t>(slice_bytes / piece_bytes, 1, peer::kMaxSegments);
}

// The owner of a slice in one piece sends it to those who read it there, without their requests.
bool is_offered(const Operation& operation, const LocalRank& rank, GroupRank owner) {
  const std::uint64_t bytes = rank.blocks.expected_bytes(owner);
  return rank.eager_sends == EagerSends::slices && bytes != 0 && pieces_of(operation, bytes) == 1;
}

// Names of the contributions to a local rank's slice, if it is short: no others are sent here eagerly.
std::vector<BlockId> names_of_contributions(const Operation& operation, const LocalRank& rank, const Segment& piece) {
  std::vector<BlockId> names;
  const Membership& group = operation.membership();
  if (rank.eager_sends != EagerSends::slices || group.leaders_of_nodes().size() == 1) return names;
  if (group.service_of(piece.source) != group.self() || piece.index != peer::kWholeBlock) return names;
  if (!sends_short_slices(operation, *rank.posted().reduction)) return names;
  for (std::size_t i = 0; i < group.size(); ++i) names.push_back(BlockId{operation.id(), group_rank(i), piece.source});
  return names;
}

}  // namespace

Task reduce_piece(Operation& operation, SegmentedBlock& slice, std::uint32_t index, Route route) {
  LocalRank& rank = slice.rank();
  const Segment piece = slice.segment(index);
  const bool offered = is_offered(operation, rank, piece.source);
  Fetch fetch(operation.replicas(), rank, piece, route, offered ? Fetch::Use::offered : Fetch::Use::copy);
  co_await fetch.located();
  const bool near = !fetch.at_source() && operation.is_near(fetch.from());
  co_await operation.enter_window(rank, near);
  const Block to = fetch.to();
  fabric::MoveOutcome outcome;
  if (!fetch.at_source()) {
    outcome = co_await fetch.move();
  } else if (operation.membership().size() == 1) {
    outcome = co_await operation.move(contribution(rank, rank.me(), piece), to);
  } else {
    const std::vector<Block> operands = contributions(rank, operation.membership().size(), piece);
    const std::vector<BlockId> names = names_of_contributions(operation, rank, piece);
    outcome = co_await reduce(operation, rank, operands, to, names);
  }
  operation.leave_window(rank, near);
  fetch.moved_untold(outcome);
  slice.end(index, outcome);
}

namespace {

Task get_slice(Operation& operation, LocalRank& rank, GroupRank owner, Countdown& missing, fabric::MoveOutcome& failure,
               Route route, SegmentedBlock::Getter getter) {
  const auto pieces = pieces_of(operation, rank.blocks.expected_bytes(owner));
  SegmentedBlock slice(operation, rank, owner, static_cast<std::uint32_t>(pieces),
                       rank.posted().reduction->element_bytes(), getter);
  slice.fetch_all(route);
  co_await slice.complete();
  const fabric::MoveOutcome outcome = slice.outcome();
  end_slice(operation, rank, owner, outcome);
  if (outcome.status != fabric::MoveStatus::ok) failure = outcome;
  missing.count();
}

void offer_own_slice(Operation& operation, LocalRank& rank, EagerSends eager) {
  rank.eager_sends = eager;
  if (!is_offered(operation, rank, rank.me()) || operation.membership().peers().empty()) return;
  operation.replicas().offer_to_readers(Segment{rank.me(), peer::kWholeBlock, 0, 0});
}

// Slices that are not placed yet, from the own one on.
std::vector<GroupRank> missing_slices(const Operation& operation, const LocalRank& rank) {
  std::vector<GroupRank> missing;
  const std::size_t size = operation.membership().size();
  for (std::size_t step = 0; step < size; ++step) {
    const GroupRank owner = group_rank((index_of(rank.me()) + step) % size);
    if (rank.blocks.expected_bytes(owner) != 0 && !rank.pairs[owner].placed) missing.push_back(owner);
  }
  return missing;
}

// All contributions have been announced, with as many bytes as this rank has.
bool has_all_contributions(const LocalRank& rank) {
  for (std::size_t i = 0; i < rank.blocks.contributors(); ++i) {
    if (rank.blocks.contribution(group_rank(i)).bytes != rank.posted().send.block_bytes) return false;
  }
  return true;
}

}  // namespace

Task reduce_slices(Operation& operation, LocalRank& rank, Route route, SegmentedBlock::Getter getter,
                   EagerSends eager) {
  offer_own_slice(operation, rank, eager);
  operation.announce_send_blocks(rank, eager);  // my contribution may be read
  const std::vector<GroupRank> missing = missing_slices(operation, rank);
  for (;;) {
    const std::optional<GroupRank> source = co_await rank.next_ready_peer();
    if (!source) break;  // all have arrived or ended
  }
  fabric::MoveOutcome failure;
  if (!missing.empty() && !has_all_contributions(rank)) rank.fail(CompletionStatus::mismatch);
  if (!missing.empty() && rank.record.status == CompletionStatus::ok) {
    co_await operation.replicas().quiescence.quiet();
    Countdown left(operation.context.scheduler, static_cast<std::uint32_t>(missing.size()));
    for (const GroupRank owner : missing) rank.spawn(get_slice(operation, rank, owner, left, failure, route, getter));
    co_await left.done();
    operation.replicas().tell_of_moved();  // with the releases
  }
  end_contributions(operation, rank, failure);
  co_await rank.filled_and_released();
  operation.complete(rank);
}

}  // namespace outrigger::engine
