#include "engine/core/settlement.hpp"

#include <algorithm>
#include <optional>

#include "engine/core/operation.hpp"

namespace outrigger::engine {
namespace {

// The rank's part in the operation if it has announced, else nullptr.
LocalRank* find_announced(const Operation& operation, GroupRank rank) {
  LocalRank* found = operation.ranks.find(rank);
  return found != nullptr && found->pairs.has_begun() ? found : nullptr;
}

void end_push(Operation& operation, LocalRank& destination, const peer::Delivered& delivered) {
  if (destination.pairs.side() != peer::Side::receive) return;
  const GroupRank source = delivered.source;
  const std::uint64_t expected = destination.blocks.expected_bytes(source);
  if (delivered.sent_bytes > expected) destination.fail(CompletionStatus::truncated);
  if (destination.pairs[source].receive == ReceiveState::filled) {
    if (delivered.sent_bytes != 0) release_source(operation, destination, source, CompletionStatus::ok);
    return;
  }
  CompletionStatus status = delivered.status;
  if (status == CompletionStatus::ok && delivered.moved_bytes != std::min(delivered.sent_bytes, expected)) {
    status = CompletionStatus::mismatch;
  }
  if (status != CompletionStatus::ok || delivered.moved_bytes != 0) operation.mark_block(destination, source, status);
  if (status == CompletionStatus::ok) {
    destination.record.bytes_by_reach[static_cast<std::size_t>(delivered.reach)] += delivered.moved_bytes;
  }
  if (status != CompletionStatus::ok) destination.fail(status);
  if (delivered.sent_bytes != 0) release_source(operation, destination, source, status);
  destination.fill(source);
}

}  // namespace

CompletionStatus status_of(const fabric::MoveOutcome& outcome) {
  switch (outcome.status) {
    case fabric::MoveStatus::ok: return CompletionStatus::ok;
    case fabric::MoveStatus::memory_fault: return CompletionStatus::memory_fault;
    case fabric::MoveStatus::owner_lost: return CompletionStatus::peer_lost;
  }
  return CompletionStatus::memory_fault;
}

// ---------------------------------------------------------------- releases

void release_source(Operation& operation, LocalRank& destination, GroupRank source, CompletionStatus status) {
  const Membership& membership = operation.membership();
  const std::uint32_t peer = membership.peer_of(source);
  if (peer == Membership::kSelf) {
    if (LocalRank* rank = operation.ranks.find(source)) release_pair(*rank, destination.me(), status);
    return;
  }
  operation.context.send(membership.peers()[peer].sp, operation.id(), peer::Release{source, destination.me(), status});
}

void release_service(Operation& operation, LocalRank& destination, std::uint32_t peer, CompletionStatus status) {
  const SpId service = operation.membership().peers()[peer].sp;
  operation.context.send(service, operation.id(), peer::Release{peer::kEachSource, destination.me(), status});
}

void on_release(Operation& operation, const peer::Release& release) {
  if (release.source == peer::kEachSource) {
    for (const std::unique_ptr<LocalRank>& rank : operation.ranks.all()) {
      if (!rank->is_completed() && rank->pairs.has_begun()) release_pair(*rank, release.destination, release.status);
    }
    return;
  }
  LocalRank* source = find_announced(operation, release.source);
  if (source != nullptr) release_pair(*source, release.destination, release.status);
}

void release_pair(LocalRank& source, GroupRank destination, CompletionStatus status) {
  const SendState state = source.pairs[destination].send;
  // A push in flight is never cancelled: its own report is answered with a release.
  if (state == SendState::released || state == SendState::moving) return;
  if (status != CompletionStatus::ok) source.fail(status);
  source.release(destination);
}

// ---------------------------------------------------------------- pushes

void report_push(Operation& operation, LocalRank& source, GroupRank destination) {
  const Membership& membership = operation.membership();
  const PairState& pair = source.pairs[destination];
  peer::Delivered delivered;
  delivered.source = source.me();
  delivered.destination = destination;
  delivered.invite_epoch = operation.remote_buffers[destination].epoch;
  delivered.status = static_cast<CompletionStatus>(pair.pushed_status);
  delivered.reach = static_cast<Reach>(pair.pushed_reach);
  delivered.sent_bytes = source.blocks.owed_bytes(destination);
  if (delivered.status == CompletionStatus::ok) {
    delivered.moved_bytes = std::min(source.blocks.remote(destination).bytes, delivered.sent_bytes);
  }
  const std::uint32_t peer = membership.peer_of(destination);
  if (peer != Membership::kSelf) {
    operation.context.send(membership.peers()[peer].sp, operation.id(), delivered);
  } else if (LocalRank* rank = operation.ranks.find(destination)) {
    end_push(operation, *rank, delivered);
  } else if (const auto status = operation.finished(membership.world(destination))) {
    end_pair_with_finished(source, destination, *status);
  }
}

void on_delivered(Operation& operation, SpId from, const peer::Delivered& delivered) {
  if (LocalRank* destination = find_announced(operation, delivered.destination)) {
    if (delivered.invite_epoch == operation.context.config.epoch) end_push(operation, *destination, delivered);
    return;
  }
  if (operation.ranks.find(delivered.destination) != nullptr) return;
  const WorldRank world = operation.membership().world(delivered.destination);
  const std::optional<CompletionStatus> status = operation.finished(world);
  if (status) operation.context.send(from, operation.id(), peer::Finished{world, *status});
}

// ---------------------------------------------------------------- finished ranks

// A rank completes only when its blocks are released. So a block that is still awaited was empty, or could not be
// moved. Service processes may not know that after restarts, but the mark says so, and contributions are not empty.
void end_pair_with_finished(LocalRank& rank, GroupRank finished, CompletionStatus status) {
  const bool waits = rank.pairs[finished].receive == ReceiveState::waiting;
  const bool had_failed = rank.posted().reduction || rank.posted().mark_of(finished) == BlockMark::failed;
  if (waits && had_failed && status == CompletionStatus::ok) status = CompletionStatus::peer_lost;
  const SendState state = rank.pairs[finished].send;
  const bool sends = state != SendState::released && state != SendState::moving;
  // Fail first: filling the pair may report the rank as filled.
  const bool failed = status != CompletionStatus::ok && status != CompletionStatus::truncated;
  if ((waits || sends) && failed) {
    rank.fail(status);
    rank.record.passed_by = (*rank.posted().members)[index_of(finished)];
  }
  if (waits) rank.fill(finished);
  if (sends) rank.release(finished);
}

namespace {

// With `rooted` only the root waits for the contribution, but there will be no result for anyone.
void end_without_result(LocalRank& rank, GroupRank passed) {
  const GroupRank root{rank.posted().root};
  if (rank.me() == root || rank.pairs[root].receive != ReceiveState::waiting) return;
  rank.fail(CompletionStatus::passed_natively);
  rank.record.passed_by = (*rank.posted().members)[index_of(passed)];
  rank.fill(root);
  rank.release(root);
}

}  // namespace

void end_pairs_with_finished(Operation& operation, const peer::Finished& finished) {
  const Membership* membership = operation.group.membership();
  const std::optional<GroupRank> member = membership == nullptr ? std::nullopt : membership->find(finished.rank);
  if (!member) return;
  for (const std::unique_ptr<LocalRank>& rank : operation.ranks.all()) {
    if (rank->is_completed() || !rank->pairs.has_begun() || rank->me() == *member) continue;
    end_pair_with_finished(*rank, *member, finished.status);
    const bool passed = finished.status == CompletionStatus::passed_natively;
    if (passed && rank->posted().algorithm == Algorithm::rooted) end_without_result(*rank, *member);
  }
}

void ask_for_ends(const Operation& operation, SpId peer, std::uint32_t native_calls) {
  operation.context.send(peer, operation.id(), peer::Overdue{native_calls});
}

void fail_for_all(Operation& operation, LocalRank& rank) {
  const peer::Finished failed{rank.world(), rank.record.status};
  // A rank that has passed is reported by its own service process.
  if (failed.status != CompletionStatus::passed_natively) {
    for (const Membership::Peer& peer : operation.membership().peers()) {
      operation.context.send(peer.sp, operation.id(), failed);
    }
    end_pairs_with_finished(operation, failed);
  }
  for (std::size_t i = 0; i < operation.membership().size(); ++i) rank.release(group_rank(i));
}

// ---------------------------------------------------------------- mismatched calls

void mismatch(LocalRank& rank, GroupRank other) {
  rank.fail(CompletionStatus::mismatch);
  const ReceiveState receive = rank.pairs[other].receive;
  if (receive == ReceiveState::waiting || receive == ReceiveState::ready) rank.fill(other);
  const SendState send = rank.pairs[other].send;
  if (send != SendState::released && send != SendState::moving) rank.release(other);
}

void refuse(Operation& operation, LocalRank& rank, GroupRank other) {
  mismatch(rank, other);
  operation.context.send(operation.membership().service_of(other), operation.id(), peer::Refusal{rank.me(), other});
}

void on_refusal(Operation& operation, const peer::Refusal& refusal) {
  if (LocalRank* rank = find_announced(operation, refusal.to)) mismatch(*rank, refusal.from);
}

}  // namespace outrigger::engine
