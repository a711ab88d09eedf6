// sliced_pull: allreduce in which every rank owns a slice of the result: reduce-scatter, then allgather, both by pulls.
//
// Source: R. Rabenseifner, "Optimization of Collective Reduction Operations", ICCS 2004: a long vector is best reduced
// by a reduce-scatter followed by an allgather. His halve and double distances; ours do each in one step, as every
// service process may read every contribution: the owner of a slice reads it of all ranks and reduces it into its own
// rank's receive buffer, and all others have it from there. Slices, the fixed order and what happens on failure are
// ours.
//
// Picture (3 ranks; A, B, C: their contributions; the columns are slices, rank i owns the i-th):
//
//     contributions       reduced by the owner        passed on
//     A  [A0|A1|A2]       [A0+B0+C0|    |    ]       [0|1|2]
//     B  [B0|B1|B2]  ──▶  [    |A1+B1+C1|    ]  ──▶  [0|1|2]
//     C  [C0|C1|C2]       [    |    |A2+B2+C2]       [0|1|2]
//
// Order: always that of group ranks, ((0 + 1) + 2) + ..., whatever arrives first, and wherever ranks and service
// processes are: the same contributions give the same bits, also in another placement.
// Late arrivals: nothing of the result can be known before the last rank has posted, and nothing is done before.
//
// Per local rank, group of p on n nodes, s service processes with members; a slice in pieces of about `segment_bytes`:
//     announcements   s - 1 (each 108 bytes)
//     reductions      p - 1 of each piece of the own slice, each with two operands read and one result written; a
//     rank's
//                     contribution is read once in all, whoever owns what
//     moves           of the p - 1 other slices' pieces, at most `window_moves` of both in flight per service process
//     on the wire     a slice of each rank of another node, 1/p of the vector each; of another node's slices each once
//                     per node. With one rank a node that is twice (p - 1)/p of the vector, the least there can be;
//                     with more, contributions of a node's ranks cross one by one. Per piece from another service
//                     process a replica request (52 bytes), answer (76), done (44); a release (52) for every rank
//     bounds          state O(p) per local rank, of which 16 bytes a slice; a coroutine for each piece. Slices have
//                     `split_bytes` or more, so short vectors have few owners
//
// Restarts: a contribution stays until all have the whole result, so what is not marked can always be made again, and
// comes out the same. It is made in a receive buffer from which others may still read what an earlier incarnation has
// made there: these are waited for (relay/quiescence). Who finds that the owner's service process has nothing reduces
// for itself.
#include <algorithm>
#include <vector>

#include "engine/core/operation.hpp"
#include "engine/core/reduction.hpp"
#include "engine/registry.hpp"
#include "engine/relay/replicas.hpp"
#include "engine/relay/segmented_block.hpp"

namespace outrigger::engine {
namespace {

// A slice of another node comes to one service process of this one, by turns, and to that from its owner's.
std::optional<SpId> ask_owner(const Membership& group, const Segment& piece, std::uint32_t hop) {
  const SpId owner = group.service_of(piece.source);
  if (group.on_own_node(piece.source)) return hop == 0 ? std::optional(owner) : std::nullopt;
  const std::vector<SpId>& siblings = group.services_of_node();
  if (hop == 0) return siblings[piece.source.value() % siblings.size()];
  return hop == 1 ? std::optional(owner) : std::nullopt;
}

// What the source contributes to a piece.
Block contribution(const LocalRank& rank, GroupRank source, const Segment& piece) {
  const PairExtent& slice = rank.posted().receive.extents[index_of(piece.source)];
  Block block = rank.blocks.contribution(source);
  block.memory.address += static_cast<std::uint64_t>(slice.offset_bytes) + piece.offset_bytes;
  block.bytes = piece.bytes;
  return block;
}

// A piece of the result, into the rank's buffer: from a rank that has it, or out of all contributions.
Task get_piece(Operation& operation, SegmentedBlock& slice, std::uint32_t index, Route route) {
  LocalRank& rank = slice.rank();
  const Segment piece = slice.segment(index);
  Fetch fetch(operation.replicas(), rank, piece, route);
  co_await fetch.located();
  co_await operation.enter_window(rank);
  const Block to = fetch.to();
  fabric::MoveOutcome outcome;
  if (!fetch.at_source() || operation.membership().size() == 1) {
    const Block from = fetch.at_source() ? contribution(rank, rank.me(), piece) : fetch.from();
    outcome = co_await operation.move(from, to);
  } else {
    Block so_far = contribution(rank, GroupRank{0}, piece);
    for (std::size_t i = 1; i < operation.membership().size(); ++i) {
      const Block next = contribution(rank, group_rank(i), piece);
      outcome = co_await reduce(operation, rank, so_far, next, to);
      if (outcome.status != fabric::MoveStatus::ok) break;
      so_far = to;
    }
  }
  operation.leave_window(rank);
  fetch.moved(outcome);
  slice.end(index, outcome);
}

Task get_slice(Operation& operation, LocalRank& rank, GroupRank owner, Countdown& missing,
               fabric::MoveOutcome& failure) {
  const std::uint64_t bytes = rank.blocks.expected_bytes(owner);
  const std::uint64_t piece_bytes = std::max<std::uint64_t>(1, operation.context.config.limits.segment_bytes);
  const auto pieces = std::clamp<std::uint64_t>(bytes / piece_bytes, 1, peer::kMaxSegments);
  SegmentedBlock slice(operation, rank, owner, static_cast<std::uint32_t>(pieces),
                       rank.posted().reduction->element_bytes(), get_piece);
  slice.fetch_all(ask_owner);
  co_await slice.complete();
  const fabric::MoveOutcome outcome = slice.outcome();
  end_slice(operation, rank, owner, outcome);
  if (outcome.status != fabric::MoveStatus::ok) failure = outcome;
  missing.count();
}

// Slices that are not there yet, from the own one on.
std::vector<GroupRank> missing_slices(const Operation& operation, const LocalRank& rank) {
  std::vector<GroupRank> missing;
  const std::size_t size = operation.membership().size();
  for (std::size_t step = 0; step < size; ++step) {
    const GroupRank owner = group_rank((index_of(rank.me()) + step) % size);
    if (rank.blocks.expected_bytes(owner) != 0 && !rank.pairs[owner].placed) missing.push_back(owner);
  }
  return missing;
}

// All have come, and with as much as this rank has.
bool has_all_contributions(const Operation& operation, const LocalRank& rank) {
  for (std::size_t i = 0; i < operation.membership().size(); ++i) {
    if (rank.blocks.contribution(group_rank(i)).bytes != rank.posted().send.block_bytes) return false;
  }
  return true;
}

void end_contributions(Operation& operation, LocalRank& rank, const fabric::MoveOutcome& outcome) {
  for (std::size_t i = 0; i < operation.membership().size(); ++i) {
    const GroupRank source = group_rank(i);
    if (rank.pairs[source].receive == ReceiveState::moving) end_contribution(operation, rank, source, outcome);
  }
}

}  // namespace

Task allreduce_sliced_pull(Operation& operation, LocalRank& rank) {
  operation.announce_send_blocks(rank);  // my contribution may be read
  const std::vector<GroupRank> missing = missing_slices(operation, rank);
  for (;;) {
    const std::optional<GroupRank> source = co_await rank.next_ready_peer();
    if (!source) break;  // all have come, or will not
  }
  fabric::MoveOutcome failure;
  if (!missing.empty() && !has_all_contributions(operation, rank)) rank.fail(CompletionStatus::mismatch);
  if (!missing.empty() && rank.record.status == CompletionStatus::ok) {
    co_await operation.replicas().quiescence.quiet();
    Countdown left(operation.context.scheduler, static_cast<std::uint32_t>(missing.size()));
    for (const GroupRank owner : missing) rank.spawn(get_slice(operation, rank, owner, left, failure));
    co_await left.done();
  }
  end_contributions(operation, rank, failure);
  co_await rank.filled_and_released();
  operation.complete(rank);
}

}  // namespace outrigger::engine
