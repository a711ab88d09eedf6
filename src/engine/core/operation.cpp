#include "engine/core/operation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "engine/core/settlement.hpp"
#include "engine/relay/replicas.hpp"

namespace outrigger::engine {

Operation::Operation(Context& engine_context, Group& its_group, std::uint64_t its_sequence)
    : context(engine_context), group(its_group), sequence(its_sequence), announcer(*this), matcher(*this) {}

Operation::~Operation() {
  if (replicas_ != nullptr) replicas_->close();
  ranks.clear();
}

// ---------------------------------------------------------------- for algorithms

void Operation::begin(LocalRank& rank, peer::Side side, EagerSends eager) {
  rank.begin(side, eager);
  const BlockLayout& layout = side == peer::Side::send ? rank.posted().send : rank.posted().receive;
  remote_buffers.learn(rank.me(), layout, context.config.epoch);
  matcher.match(rank);
}

void Operation::announce(LocalRank& rank, peer::Side side, EagerSends eager) {
  begin(rank, side, eager);
  announcer.announce(rank);
}

void Operation::hold_send_blocks(LocalRank& rank, EagerSends eager) {
  rank.held_back = true;
  if (context.config.epoch > Epoch{1}) {
    for (const Membership::Peer& peer : membership().peers()) ask_for_ends(*this, peer.sp, rank.posted().native_calls);
  }
  begin(rank, peer::Side::send, eager);
}

void Operation::announce_held_blocks(LocalRank& rank) {
  rank.held_back = false;
  matcher.offer_to_local_ranks(rank);
  announcer.announce(rank);
}

void Operation::mark_block(LocalRank& destination, GroupRank source, const fabric::MoveOutcome& outcome) {
  mark_block(destination, source, status_of(outcome));
}

void Operation::mark_block(LocalRank& destination, GroupRank source, CompletionStatus status) {
  const BlockMark mark = status == CompletionStatus::ok ? BlockMark::delivered : BlockMark::failed;
  context.fabric.ranks.mark_block(destination.world(), destination.posted().slot, source, mark);
}

void Operation::release(LocalRank& destination, GroupRank source, const fabric::MoveOutcome& outcome) {
  release_source(*this, destination, source, status_of(outcome));
}

void Operation::count_filled(LocalRank& destination, GroupRank source, const fabric::MoveOutcome& outcome) {
  const CompletionStatus status = status_of(outcome);
  if (status == CompletionStatus::ok) {
    destination.record.bytes_by_reach[static_cast<std::size_t>(outcome.reach)] += destination.blocks.pull_bytes(source);
    destination.pairs.set_placed(source);
  } else {
    destination.fail(status);
  }
  destination.pairs.end_move();
  destination.fill(source);
}

void Operation::report_delivered(LocalRank& source, GroupRank destination, const fabric::MoveOutcome& outcome) {
  source.pairs.set_pushed(destination, status_of(outcome), outcome.reach);
  source.pairs.end_move();
  report_push(*this, source, destination);
  source.notify();
}

void Operation::complete(LocalRank& rank) {
  assert(rank.is_settled() && !rank.is_completed() && "a rank completes once, when nothing needs its buffers");
  rank.set_completed();
  ranks.close(rank);
  announcer.give_back_credits(rank);
  group.progress(rank.world()).complete(sequence, rank.record.status);
  context.ended.push_back(id());
  context.fabric.ranks.complete(rank.world(), rank.posted().slot, rank.record);
}

Replicas& Operation::replicas() {
  if (replicas_ == nullptr) replicas_ = std::make_unique<Replicas>(*this);
  return *replicas_;
}

// ---------------------------------------------------------------- ranks that join and leave

void Operation::add(PostedOperation&& posted, AlgorithmFunction algorithm) {
  if (!ranks.made()) {
    ranks.make(context.memory, membership());
    remote_buffers.make(context.memory, membership().size());
    announcer.make(context.memory, membership().peers().size());
  }
  const bool passed_on = passes_on(posted.collective, posted.algorithm);
  std::unique_ptr<LocalRank> made(new (context.memory) LocalRank(context, *this, std::move(posted)));
  made->record.late_announcements = matcher.count_early(made->me());
  const bool first = ranks.empty();
  LocalRank& rank = ranks.add(std::move(made));
  if (passed_on && first && context.config.epoch > Epoch{1}) replicas().quiescence.ask_all();
  Task task = algorithm(*this, rank);
  rank.spawn(std::move(task));
}

void Operation::remove_completed() {
  ranks.remove_completed();
  reconsider_all_replicas();
}

void Operation::drop(GroupRank rank) {
  if (LocalRank* dropped = ranks.find(rank)) {
    announcer.give_back_credits(*dropped);
    if (replicas_ != nullptr) {
      replicas_->tell_of_moved();
      replicas_->eager.holder_goes(rank);
    }
    ranks.remove(*dropped);
  }
  reconsider_all_replicas();
  matcher.forget_met();
}

void Operation::restored(WorldRank rank) {
  const std::optional<CompletionStatus> status = finished(rank);
  if (!status) return;
  const peer::Finished ended{rank, *status};
  end_pairs_with_finished(*this, ended);
  matcher.tell_announcers(ended);
}

void Operation::peer_restarted(std::uint32_t peer) {
  if (replicas_ != nullptr) replicas_->peer_restarted(membership().peers()[peer].sp);
  announcer.reannounce(peer);
  const LocalRank* held_back = ranks.find_if([](const LocalRank& rank) { return rank.held_back; });
  if (held_back != nullptr) ask_for_ends(*this, membership().peers()[peer].sp, held_back->posted().native_calls);
}

// Waiting requests are answered before the operation is removed, by Matcher::forget_met() and forget_met_by_restored().
bool Operation::is_over() const {
  if (!ranks.empty() || matcher.keeps_any()) return false;
  if (replicas_ == nullptr || !replicas_->has_delegates()) return true;
  // Ranks that post later need the list of holders.
  if (group.membership() == nullptr) return context.config.epoch > Epoch{1} || !context.dropped_ranks.empty();
  return std::all_of(membership().local().begin(), membership().local().end(),
                     [&](GroupRank local) { return finished(membership().world(local)).has_value(); });
}

void Operation::reconsider_replicas(GroupRank source) {
  if (replicas_ != nullptr) replicas_->reconsider(source);
}

void Operation::reconsider_all_replicas() {
  if (replicas_ != nullptr) replicas_->reconsider();
}

bool Operation::is_quiescent() const {
  return replicas_ == nullptr || replicas_->quiescence.reached();
}

std::optional<std::string> Operation::broken_invariant() const {
  std::optional<std::string> broken = announcer.broken_invariant();
  for (const std::unique_ptr<LocalRank>& rank : ranks.all()) {
    if (!broken) broken = rank->broken_invariant();
  }
  if (!broken && replicas_ != nullptr) broken = replicas_->broken_invariant();
  if (!broken) return std::nullopt;
  return fmt::format("operation {}: {}", sequence, *broken);
}

}  // namespace outrigger::engine
