#include "engine/core/operation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace outrigger::engine {
namespace {

CompletionStatus status_of(const fabric::MoveOutcome& outcome) {
  switch (outcome.status) {
    case fabric::MoveStatus::ok: return CompletionStatus::ok;
    case fabric::MoveStatus::memory_fault: return CompletionStatus::memory_fault;
    case fabric::MoveStatus::owner_lost: return CompletionStatus::peer_lost;
  }
  return CompletionStatus::memory_fault;
}

// The block that an announcement names for the receiver's rank `number`, which is `rank` in the group.
RemoteBlock announced_block(const peer::Announce& announce, std::uint32_t number, GroupRank rank) {
  RemoteBlock remote;
  if (announce.extents.empty()) {
    remote.address = announce.base + static_cast<std::uint64_t>(announce.stride_bytes) * rank.value();
    remote.bytes = announce.block_bytes;
    return remote;
  }
  const PairExtent& extent = announce.extents[number - announce.first];
  remote.address = announce.base + static_cast<std::uint64_t>(extent.offset_bytes);
  remote.bytes = extent.bytes;
  return remote;
}

bool covers(const peer::Announce& announce, std::uint32_t number) {
  return number >= announce.first && number - announce.first < announce.count;
}

bool names_bytes(const peer::Announce& announce) {
  if (announce.extents.empty()) return announce.block_bytes != 0;
  return std::any_of(announce.extents.begin(), announce.extents.end(),
                     [](const PairExtent& extent) { return extent.bytes != 0; });
}

}  // namespace

Operation::Operation(Context& context, Group& group, std::uint64_t sequence)
    : context_(context), group_(group), sequence_(sequence) {}

Operation::~Operation() {
  if (copies_ != nullptr) copies_->close();
  parts_.clear();
  while (!waiting_.empty()) remove_waiting(waiting_.begin());
}

OperationId Operation::id() const {
  return OperationId{group_.id(), sequence_};
}

LocalRank* Operation::find(GroupRank rank) {
  if (open_.empty() || group_.membership()->peer_of(rank) != Membership::kSelf) return nullptr;
  return open_[group_.membership()->number_at_peer(rank)];
}

// ---------------------------------------------------------------- posting and completion

void Operation::add(PostedOperation&& posted, AlgorithmFunction algorithm) {
  const Membership& membership = *group_.membership();
  if (open_.empty()) {
    open_.make(context_.memory, membership.local().size(), nullptr);
    remote_.make(context_.memory, membership.size(), RemoteBuffer());
    outstanding_.make(context_.memory, membership.peers().size(), 0);
    parts_.reserve(membership.local().size());
  }
  std::unique_ptr<LocalRank> part(new (context_.memory) LocalRank(context_, *this, std::move(posted), membership));
  const std::uint32_t number = membership.number_at_peer(part->me());
  for (const auto& [key, waiting] : waiting_)
    part->record_.late_announcements += covers(waiting.announce, number) ? 1 : 0;
  for (const std::unique_ptr<LocalRank>& other : parts_)
    part->record_.late_announcements += other->has_announced() ? 1 : 0;
  LocalRank& rank = *part;
  parts_.push_back(std::move(part));
  open_[number] = &rank;
  // Of the former incarnation somebody may still be reading here.
  if (passes_on(rank.posted_.collective, rank.posted_.algorithm) && context_.config.epoch > Epoch{1} &&
      parts_.size() == 1) {
    copies().ask_for_quiet();
  }
  Task task = algorithm(*this, rank);
  rank.spawn(std::move(task));
}

void Operation::complete(LocalRank& rank) {
  assert(rank.is_settled() && !rank.completed_);
  rank.completed_ = true;
  open_[group_.membership()->number_at_peer(rank.me())] = nullptr;
  give_back_credits(rank);
  group_.progress(rank.world()).complete(sequence_, rank.status_);
  rank.record_.status = rank.status_;
  context_.ended_parts.push_back(id());
  context_.fabric.complete(rank.world(), rank.posted_.slot, rank.record_);
}

void Operation::remove_completed() {
  std::erase_if(parts_, [](const std::unique_ptr<LocalRank>& part) { return part->completed_; });
  if (copies_ != nullptr) copies_->reconsider();
}

void Operation::drop(GroupRank rank) {
  if (LocalRank* part = find(rank)) {
    give_back_credits(*part);
    open_[group_.membership()->number_at_peer(rank)] = nullptr;
    std::erase_if(parts_, [part](const std::unique_ptr<LocalRank>& other) { return other.get() == part; });
  }
  if (copies_ != nullptr) copies_->reconsider();
  forget_useless_waiting();
}

// What waits is answered before the operation goes, by forget_useless_waiting() and forget_met_waiting().
bool Operation::is_over() const {
  if (!parts_.empty() || !waiting_.empty()) return false;
  if (copies_ == nullptr || !copies_->remembers()) return true;
  // Ranks that come later are told who has the block.
  const Membership* membership = group_.membership();
  if (membership == nullptr) return context_.config.epoch > Epoch{1} || !context_.dropped_ranks.empty();
  return std::all_of(membership->local().begin(), membership->local().end(),
                     [&](GroupRank local) { return group_.finished(membership->world(local), sequence_).has_value(); });
}

// ---------------------------------------------------------------- copies at other ranks

Copies& Operation::copies() {
  if (copies_ == nullptr) copies_ = std::make_unique<Copies>(context_, group_, *this);
  return *copies_;
}

SpId Operation::home_of(GroupRank source) const {
  const std::vector<SpId>& services = group_.membership()->services_of_node();
  return services[source.value() % services.size()];
}

void Operation::release_own_node(LocalRank& rank) {
  const Membership& membership = *group_.membership();
  for (std::size_t i = 0; i < membership.size(); ++i) {
    const GroupRank source = group_rank(i);
    if (membership.on_own_node(source) && rank.is_placed(source)) send_release(rank, source, CompletionStatus::ok);
  }
}

void Operation::notify_parts() {
  for (const std::unique_ptr<LocalRank>& part : parts_) part->notify();
}

void Operation::block_ended() {
  if (copies_ != nullptr) copies_->reconsider();
}

void Operation::on_want(SpId from, const peer::Want& want) {
  copies().on_want(from, want);
}

void Operation::on_copy(SpId from, const peer::Copy& copy) {
  if (copies_ != nullptr) return copies_->on_copy(from, copy);
  if (copy.where == peer::Where::here) context_.send(from, id(), peer::Done{copy.source, copy.piece});
}

void Operation::on_done(SpId from, const peer::Done& done) {
  if (copies_ != nullptr) copies_->on_done(from, done);
}

void Operation::on_quiet(SpId from, const peer::Quiet& quiet) {
  if (copies_ != nullptr) return copies_->on_quiet(from, quiet);
  if (quiet.asks) context_.send(from, id(), peer::Quiet{false});
}

// ---------------------------------------------------------------- announcing

void Operation::announce(LocalRank& rank, peer::Side side) {
  rank.begin(side);
  const BlockLayout& layout = side == peer::Side::send ? rank.posted_.send : rank.posted_.receive;
  learn_buffer(rank.me(), layout, context_.config.epoch);
  meet_local_ranks(rank);
  meet_waiting(rank);
  for (std::uint32_t peer = 0; peer < outstanding_.size(); ++peer) announce_to(rank, peer);
}

// Ranks of the same service process need no messages: their parts are here.
void Operation::meet_local_ranks(LocalRank& rank) {
  const Membership& membership = *group_.membership();
  for (const std::unique_ptr<LocalRank>& part : parts_) {
    LocalRank& other = *part;
    if (other.completed_ || !other.has_announced()) continue;
    if (other.posted_.digest != rank.posted_.digest || other.side_ != rank.side_) {
      refused(rank, other.me());
      refused(other, rank.me());
      continue;
    }
    const auto meet = [this](LocalRank& announcer, LocalRank& reader) {
      const bool sends = announcer.side_ == peer::Side::send;
      const BlockLayout& layout = sends ? announcer.posted_.send : announcer.posted_.receive;
      RemoteBlock remote{layout.address(reader.me()), layout.bytes(reader.me())};
      if (sends) return offer(reader, announcer.me(), remote, !layout.extents.empty());
      if (remote.bytes != 0 && announcer.pair_settled(reader.me())) remote.bytes = peer::kSettled;
      invite(reader, announcer.me(), remote, !layout.extents.empty());
    };
    meet(rank, other);
    if (&other != &rank) meet(other, rank);
  }
  for (const GroupRank local : membership.local()) {
    if (find(local) != nullptr) continue;
    const std::optional<CompletionStatus> status = group_.finished(membership.world(local), sequence_);
    if (status) finished_at(rank, local, *status);
  }
}

void Operation::meet_waiting(LocalRank& rank) {
  for (const auto& [key, waiting] : waiting_) {
    if (fits(waiting.announce, waiting.from)) apply(waiting.announce, waiting.from, rank);
  }
  forget_useless_waiting();
}

// Kept until the last local rank that it concerns has met it; all local ranks meet all announcements, so they go
// together.
void Operation::forget_useless_waiting() {
  if (waiting_.empty()) return;
  const Membership& membership = *group_.membership();
  for (const GroupRank local : membership.local()) {
    const LocalRank* part = find(local);
    if (part != nullptr ? !part->has_announced() : !group_.finished(membership.world(local), sequence_)) return;
  }
  while (!waiting_.empty()) remove_waiting(waiting_.begin());
}

Operation::WaitingAnnouncements::iterator Operation::remove_waiting(WaitingAnnouncements::iterator waiting) {
  if (!names_bytes(waiting->second.announce)) --group_.waiting_announcements;
  return waiting_.erase(waiting);
}

bool Operation::concerns(const LocalRank& rank, std::uint32_t peer) const {
  const GroupRank root{rank.posted_.root};
  return !is_rooted(rank.posted_.collective) || rank.me() == root || group_.membership()->peer_of(root) == peer;
}

void Operation::announce_to(LocalRank& rank, std::uint32_t peer) {
  if (!concerns(rank, peer)) {
    rank.peers_[peer].announced = LocalRank::Announced::yes;
    return;
  }
  if (rank.peers_[peer].unsettled == 0) {
    rank.peers_[peer].announced = LocalRank::Announced::yes;  // nothing to wait for: no credit needed
    send_announcement(rank, peer, false);
    return;
  }
  std::set<std::pair<std::uint64_t, GroupRank>>& waiting = group_.credit_lines()[peer].waiting;
  waiting.emplace(sequence_, rank.me());
  Context::raise(context_.counters.most_announcements_waiting, waiting.size());
  group_.send_waiting(peer);
}

bool Operation::announce_with_credit(GroupRank rank, std::uint32_t peer) {
  LocalRank* part = find(rank);
  if (part == nullptr) return false;
  const bool with_credit = part->peers_[peer].unsettled != 0;
  part->peers_[peer].announced = with_credit ? LocalRank::Announced::with_credit : LocalRank::Announced::yes;
  if (with_credit) ++outstanding_[peer];
  send_announcement(*part, peer, false);
  return with_credit;
}

void Operation::settled_at(LocalRank& rank, std::uint32_t peer) {
  LocalRank::Announced& announced = rank.peers_[peer].announced;
  if (announced == LocalRank::Announced::no && group_.credit_lines()[peer].waiting.erase({sequence_, rank.me()}) != 0) {
    // Settled without having been heard there: who expects more than this rank has for it waits for the announcement.
    announced = LocalRank::Announced::yes;
    send_announcement(rank, peer, false);
    return;
  }
  if (announced != LocalRank::Announced::with_credit) return;
  announced = LocalRank::Announced::yes;
  if (--outstanding_[peer] != 0) return;
  --group_.credit_lines()[peer].in_use;
  group_.send_waiting(peer);
}

void Operation::give_back_credits(LocalRank& rank) {
  for (std::uint32_t peer = 0; peer < rank.peers_.size(); ++peer) {
    if (rank.peers_[peer].announced == LocalRank::Announced::no) {
      group_.credit_lines()[peer].waiting.erase({sequence_, rank.me()});
    }
    settled_at(rank, peer);
  }
}

bool Operation::eager_sends(const LocalRank& rank, const Membership::Peer& reader) const {
  if (rank.eager_sends_ != EagerSends::to_lone_ranks) return rank.eager_sends_ == EagerSends::to_all;
  const Membership& membership = *group_.membership();
  return reader.ranks.size() == 1 && membership.services_by_node()[membership.node_of(reader.sp)].size() == 1;
}

// Hints, so once: what a peer has lost by a restart it asks for.
void Operation::send_eager(LocalRank& rank, const Membership::Peer& reader) {
  for (const GroupRank destination : reader.ranks) {
    PairState& pair = rank.pairs_[index_of(destination)];
    if (pair.send == SendState::released || pair.ahead) continue;
    pair.ahead = true;
    ++rank.eager_;
    const BlockId block{id(), rank.me(), destination};
    context_.fabric.send_eager(block, rank.posted_.send.block(destination), reader.sp);
  }
}

// Written from the state of this moment: an announcement that is repeated, or that has waited for a credit, says
// which pairs are settled by now.
void Operation::send_announcement(LocalRank& rank, std::uint32_t peer, bool again) {
  const Membership::Peer& service = group_.membership()->peers()[peer];
  const bool sends = rank.side_ == peer::Side::send;
  const BlockLayout& layout = sends ? rank.posted_.send : rank.posted_.receive;
  peer::Announce announce;
  announce.side = rank.side_;
  announce.again = again || context_.config.epoch > Epoch{1};
  announce.rank = rank.world();
  announce.group_rank = rank.me();
  announce.collective = rank.posted_.collective;
  announce.algorithm = rank.posted_.algorithm;
  announce.root = rank.posted_.root;
  announce.digest = rank.posted_.digest;
  announce.region = layout.base.region;
  announce.base = layout.base.address;
  announce.members = static_cast<std::uint32_t>(service.ranks.size());
  if (!again && eager_sends(rank, service)) send_eager(rank, service);
  const auto settled = [&](GroupRank other) { return layout.block(other).bytes != 0 && rank.pair_settled(other); };
  const bool regular = layout.extents.empty() && std::none_of(service.ranks.begin(), service.ranks.end(), settled);
  if (regular) {
    announce.stride_bytes = layout.stride_bytes;
    announce.block_bytes = layout.block_bytes;
    announce.count = announce.members;
    context_.send(service.sp, id(), std::move(announce));
    return;
  }
  const std::size_t limit = context_.config.limits.message_bytes;
  const std::size_t fixed = peer::announce_bytes();
  const std::size_t most = limit > fixed + peer::kExtentBytes ? (limit - fixed) / peer::kExtentBytes : 1;
  for (std::size_t first = 0; first < service.ranks.size(); first += most) {
    const std::size_t count = std::min(most, service.ranks.size() - first);
    peer::Announce piece = announce;
    piece.first = static_cast<std::uint32_t>(first);
    piece.count = static_cast<std::uint32_t>(count);
    for (std::size_t i = first; i < first + count; ++i) {
      const Block block = layout.block(service.ranks[i]);
      PairExtent extent;
      extent.offset_bytes = static_cast<std::int64_t>(block.memory.address - layout.base.address);
      extent.bytes = settled(service.ranks[i]) ? peer::kSettled : block.bytes;
      piece.extents.push_back(extent);
    }
    context_.send(service.sp, id(), std::move(piece));
  }
}

void Operation::reannounce(std::uint32_t peer) {
  if (copies_ != nullptr) copies_->peer_restarted(group_.membership()->peers()[peer].sp);
  for (const std::unique_ptr<LocalRank>& part : parts_) {
    if (part->completed_ || !part->has_announced() || part->peers_[peer].announced == LocalRank::Announced::no)
      continue;
    if (concerns(*part, peer)) send_announcement(*part, peer, true);
  }
}

// ---------------------------------------------------------------- announcements received

bool Operation::fits(const peer::Announce& announce, SpId from) const {
  const Membership& membership = *group_.membership();
  return membership.contains(announce.group_rank) && membership.world(announce.group_rank) == announce.rank &&
         context_.service_of(announce.rank) == from && announce.members == membership.local().size();
}

void Operation::on_announce(SpId from, peer::Announce announce) {
  const Membership* membership = group_.membership();
  bool waits = false;
  if (membership == nullptr) {
    // Only ranks that were restored are known; the others will post or be restored.
    std::uint32_t finished = 0;
    for (const auto& [rank, progress] : group_.all_progress()) {
      const std::optional<CompletionStatus> status = group_.finished(rank, sequence_);
      if (!status) continue;
      ++finished;
      context_.send(from, id(), peer::Finished{rank, *status});
    }
    // Who has left without a post may be a member; the sender knows.
    for (const WorldRank rank : context_.dropped_ranks) {
      if (group_.all_progress().contains(rank)) continue;
      context_.send(from, id(), peer::Finished{rank, CompletionStatus::peer_lost});
    }
    waits = finished < announce.members;
  } else {
    if (!fits(announce, from)) return;
    for (std::uint32_t number = announce.first; number < announce.first + announce.count; ++number) {
      const GroupRank local = membership->local()[number];
      LocalRank* part = find(local);
      if (part != nullptr && part->has_announced()) {
        apply(announce, from, *part);
        continue;
      }
      const WorldRank world = membership->world(local);
      const std::optional<CompletionStatus> status = group_.finished(world, sequence_);
      if (part != nullptr || !status) {
        waits = true;
      } else if (announce.again || context_.config.epoch > Epoch{1} || *status != CompletionStatus::ok ||
                 announced_block(announce, number, local).bytes != 0) {
        // After a failure the sender is told even if this side of the pair is empty: the other side may not be.
        context_.send(from, id(), peer::Finished{world, *status});
      }
    }
  }
  if (!waits) return;
  // Said again: by the same incarnation piece by piece, by a new one all of it. What an old incarnation said stays true
  // until then, and of a rank that has completed it is all that will ever be said.
  const Epoch epoch = context_.epoch_of(from);
  for (auto other = waiting_.lower_bound({announce.rank, 0});
       other != waiting_.end() && other->first.first == announce.rank;) {
    const bool replaced = other->second.epoch != epoch || other->first.second == announce.first;
    other = replaced ? remove_waiting(other) : std::next(other);
  }
  if (!names_bytes(announce)) {
    if (group_.waiting_announcements >= context_.config.limits.waiting_announcements) return;
    ++group_.waiting_announcements;
  }
  const std::pair key{announce.rank, announce.first};
  waiting_.emplace(key, Waiting{from, epoch, std::move(announce)});
  Context::raise(context_.counters.most_kept_announcements, waiting_.size());
}

void Operation::apply(const peer::Announce& announce, SpId from, LocalRank& rank) {
  const std::uint32_t number = group_.membership()->number_at_peer(rank.me());
  if (!covers(announce, number)) return;
  if (announce.digest != rank.posted_.digest || announce.side != rank.side_) {
    refuse(rank, announce.group_rank);
    return;
  }
  BlockLayout layout;
  layout.base.region = announce.region;
  layout.base.address = announce.base;
  layout.stride_bytes = announce.stride_bytes;
  if (announce.extents.empty()) layout.block_bytes = announce.block_bytes;
  learn_buffer(announce.group_rank, layout, context_.epoch_of(from));
  const RemoteBlock remote = announced_block(announce, number, rank.me());
  const bool by_extent = !announce.extents.empty();
  if (announce.side == peer::Side::send) {
    offer(rank, announce.group_rank, remote, by_extent);
    return;
  }
  // A source that has been restarted does not know which of its blocks are here.
  if (announce.again && rank.receive_state(announce.group_rank) == ReceiveState::filled) {
    send_release(rank, announce.group_rank, CompletionStatus::ok);
  }
  invite(rank, announce.group_rank, remote, by_extent);
}

// What is known stays: a rank's buffers do not change within an operation, and moves may be under way.
void Operation::learn_buffer(GroupRank rank, const BlockLayout& layout, Epoch epoch) {
  RemoteBuffer& buffer = remote_[index_of(rank)];
  buffer.epoch = epoch;
  buffer.region = layout.base.region;
  if (buffer.block_bytes != 0 || !layout.extents.empty()) return;
  buffer.base = layout.base.address;
  buffer.stride_bytes = layout.stride_bytes;
  buffer.block_bytes = layout.block_bytes;
}

// A source's block may be pulled.
void Operation::offer(LocalRank& destination, GroupRank source, const RemoteBlock& remote, bool by_extent) {
  if (source == destination.me() && destination.posted_.own_block_done) return;
  const ReceiveState state = destination.receive_state(source);
  if (remote.bytes == peer::kSettled) {
    // The source needs no answer. That it was released while our mark is missing happens after a failed move only.
    if (state != ReceiveState::waiting) return;
    destination.fail(CompletionStatus::memory_fault);
    destination.set_filled(source);
    return;
  }
  if (remote.bytes > destination.expected_bytes(source)) destination.fail(CompletionStatus::truncated);
  if (state == ReceiveState::waiting && remote.bytes != 0) {
    destination.set_ready(source, remote, by_extent);
  } else if (state == ReceiveState::waiting) {
    destination.set_filled(source);
  } else if (state == ReceiveState::filled && remote.bytes != 0) {
    destination.forget_eager(source);
    send_release(destination, source, CompletionStatus::ok);
  }
}

// A destination's buffer may be written.
void Operation::invite(LocalRank& source, GroupRank destination, const RemoteBlock& remote, bool by_extent) {
  if (destination == source.me() && source.posted_.own_block_done) return;
  if (remote.bytes == peer::kSettled) {
    released_at(source, destination, CompletionStatus::ok);
    return;
  }
  PairState& pair = source.pairs_[index_of(destination)];
  switch (pair.send) {
    case SendState::waiting:
      if (remote.bytes != 0) return source.set_ready(destination, remote, by_extent);
      source.ready_.erase(destination);
      pair.send = SendState::pushed;  // no room there: nothing to move, only to report
      --source.untaken_;
      source.notify();
      pushed(source, destination);
      return;
    case SendState::ready:
    case SendState::moving: return;  // reported when it has moved
    case SendState::pushed: pushed(source, destination); return;
    case SendState::released:
      if (remote.bytes == 0) return;
      // Released without a push of this incarnation: the destination has its mark.
      if (source.owed_bytes(destination) != 0 && !pair.announced) return;
      pushed(source, destination);
      return;
  }
}

// ---------------------------------------------------------------- pulls

void Operation::mark_delivered(LocalRank& destination, GroupRank source, const fabric::MoveOutcome& outcome) {
  if (outcome.status != fabric::MoveStatus::ok) return;
  context_.fabric.mark_delivered(destination.world(), destination.posted_.slot, source);
}

void Operation::release(LocalRank& destination, GroupRank source, const fabric::MoveOutcome& outcome) {
  send_release(destination, source, status_of(outcome));
}

void Operation::count_filled(LocalRank& destination, GroupRank source, const fabric::MoveOutcome& outcome) {
  const CompletionStatus status = status_of(outcome);
  if (status == CompletionStatus::ok) {
    destination.record_.bytes_by_reach[static_cast<std::size_t>(outcome.reach)] += destination.pull_bytes(source);
    destination.pairs_[index_of(source)].placed = true;
  } else {
    destination.fail(status);
  }
  destination.end_move();
  destination.set_filled(source);
}

// ---------------------------------------------------------------- pushes

void Operation::report_delivered(LocalRank& source, GroupRank destination, const fabric::MoveOutcome& outcome) {
  source.set_pushed(destination, status_of(outcome), outcome.reach);
  source.end_move();
  pushed(source, destination);
  source.notify();
}

void Operation::pushed(LocalRank& source, GroupRank destination) {
  const PairState& pair = source.pairs_[index_of(destination)];
  peer::Delivered delivered;
  delivered.source = source.me();
  delivered.destination = destination;
  delivered.invite_epoch = remote_buffer(destination).epoch;
  delivered.status = static_cast<CompletionStatus>(pair.pushed_status);
  delivered.reach = static_cast<Reach>(pair.pushed_reach);
  delivered.sent_bytes = source.owed_bytes(destination);
  if (delivered.status == CompletionStatus::ok) {
    delivered.moved_bytes = std::min(source.remote(destination).bytes, delivered.sent_bytes);
  }
  const std::uint32_t peer = group_.membership()->peer_of(destination);
  if (peer != Membership::kSelf) {
    context_.send(group_.membership()->peers()[peer].sp, id(), delivered);
    return;
  }
  if (LocalRank* part = find(destination)) {
    delivered_to(*part, delivered);
  } else if (const auto status = group_.finished(group_.membership()->world(destination), sequence_)) {
    finished_at(source, destination, *status);
  }
}

void Operation::on_delivered(SpId from, const peer::Delivered& delivered) {
  LocalRank* part = find(delivered.destination);
  if (part != nullptr && part->has_announced()) {
    if (delivered.invite_epoch == context_.config.epoch) delivered_to(*part, delivered);
    return;
  }
  const WorldRank world = group_.membership()->world(delivered.destination);
  const std::optional<CompletionStatus> status = group_.finished(world, sequence_);
  if (part == nullptr && status) context_.send(from, id(), peer::Finished{world, *status});
}

void Operation::delivered_to(LocalRank& destination, const peer::Delivered& delivered) {
  if (destination.side_ != peer::Side::receive) return;
  const GroupRank source = delivered.source;
  const std::uint64_t expected = destination.expected_bytes(source);
  if (delivered.sent_bytes > expected) destination.fail(CompletionStatus::truncated);
  if (destination.receive_state(source) == ReceiveState::filled) {
    if (delivered.sent_bytes != 0) send_release(destination, source, CompletionStatus::ok);
    return;
  }
  CompletionStatus status = delivered.status;
  if (status == CompletionStatus::ok && delivered.moved_bytes != std::min(delivered.sent_bytes, expected)) {
    status = CompletionStatus::mismatch;
  }
  if (status == CompletionStatus::ok && delivered.moved_bytes != 0) {
    context_.fabric.mark_delivered(destination.world(), destination.posted_.slot, source);
    destination.record_.bytes_by_reach[static_cast<std::size_t>(delivered.reach)] += delivered.moved_bytes;
  }
  if (status != CompletionStatus::ok) destination.fail(status);
  if (delivered.sent_bytes != 0) send_release(destination, source, status);
  destination.set_filled(source);
}

// ---------------------------------------------------------------- releases and ends

void Operation::send_release(LocalRank& destination, GroupRank source, CompletionStatus status) {
  const std::uint32_t peer = group_.membership()->peer_of(source);
  if (peer == Membership::kSelf) {
    if (LocalRank* part = find(source)) released_at(*part, destination.me(), status);
    return;
  }
  context_.send(group_.membership()->peers()[peer].sp, id(), peer::Release{source, destination.me(), status});
}

void Operation::on_release(SpId /*from*/, const peer::Release& release) {
  LocalRank* part = find(release.source);
  if (part != nullptr && part->has_announced()) released_at(*part, release.destination, release.status);
}

void Operation::released_at(LocalRank& source, GroupRank destination, CompletionStatus status) {
  const SendState state = source.send_state(destination);
  // A push in flight is never cut short: its own report gets a release of its own.
  if (state == SendState::released || state == SendState::moving) return;
  if (status != CompletionStatus::ok) source.fail(status);
  source.set_released(destination);
}

void Operation::on_finished(WorldRank rank, CompletionStatus status) {
  const Membership* membership = group_.membership();
  const std::optional<GroupRank> finished = membership == nullptr ? std::nullopt : membership->find(rank);
  if (!finished) return;
  for (const std::unique_ptr<LocalRank>& part : parts_) {
    if (!part->completed_ && part->has_announced() && part->me() != *finished) finished_at(*part, *finished, status);
  }
}

// A rank completes only when its blocks are released, so what is still waited for from it was empty (or it failed).
void Operation::finished_at(LocalRank& rank, GroupRank finished, CompletionStatus status) {
  bool open = false;
  if (rank.receive_state(finished) == ReceiveState::waiting) {
    open = true;
    rank.set_filled(finished);
  }
  const SendState state = rank.send_state(finished);
  if (state != SendState::released && state != SendState::moving) {
    open = true;
    rank.set_released(finished);
  }
  if (open && status != CompletionStatus::ok && status != CompletionStatus::truncated) rank.fail(status);
}

void Operation::refuse(LocalRank& rank, GroupRank other) {
  refused(rank, other);
  const std::uint32_t peer = group_.membership()->peer_of(other);
  context_.send(group_.membership()->peers()[peer].sp, id(), peer::Refusal{rank.me(), other});
}

void Operation::refused(LocalRank& rank, GroupRank other) {
  rank.fail(CompletionStatus::mismatch);
  const ReceiveState receive = rank.receive_state(other);
  if (receive == ReceiveState::waiting || receive == ReceiveState::ready) rank.set_filled(other);
  const SendState send = rank.send_state(other);
  if (send != SendState::released && send != SendState::moving) rank.set_released(other);
}

void Operation::on_refusal(SpId /*from*/, const peer::Refusal& refusal) {
  LocalRank* part = find(refusal.to);
  if (part != nullptr && part->has_announced()) refused(*part, refusal.from);
}

// ---------------------------------------------------------------- restarts and checks

void Operation::restored(WorldRank rank) {
  const std::optional<CompletionStatus> status = group_.finished(rank, sequence_);
  if (!status) return;
  on_finished(rank, *status);
  std::set<SpId> told;
  for (const auto& [key, waiting] : waiting_) {
    if (told.insert(waiting.from).second) context_.send(waiting.from, id(), peer::Finished{rank, *status});
  }
}

void Operation::forget_met_waiting() {
  if (group_.membership() != nullptr) return forget_useless_waiting();
  const auto finished = static_cast<std::uint32_t>(
      std::count_if(group_.all_progress().begin(), group_.all_progress().end(),
                    [&](const auto& entry) { return group_.finished(entry.first, sequence_).has_value(); }));
  for (auto waiting = waiting_.begin(); waiting != waiting_.end();) {
    const bool met = waiting->second.announce.members <= finished;
    waiting = met ? remove_waiting(waiting) : std::next(waiting);
  }
}

std::uint32_t Operation::window_slots() const {
  std::uint32_t slots = 0;
  for (const std::unique_ptr<LocalRank>& part : parts_) slots += part->window_slots_;
  return slots;
}

std::optional<std::string> Operation::broken_invariant() const {
  std::vector<std::uint32_t> outstanding(outstanding_.size(), 0);
  for (const std::unique_ptr<LocalRank>& part : parts_) {
    if (std::optional<std::string> broken = part->broken_invariant()) {
      return fmt::format("operation {}: {}", sequence_, *broken);
    }
    for (std::size_t peer = 0; peer < outstanding.size(); ++peer) {
      if (part->peers_[peer].announced == LocalRank::Announced::with_credit) ++outstanding[peer];
    }
  }
  if (!std::equal(outstanding.begin(), outstanding.end(), outstanding_.begin(), outstanding_.end()))
    return fmt::format("operation {}: credits miscounted", sequence_);
  return copies_ == nullptr ? std::nullopt : copies_->broken_invariant();
}

}  // namespace outrigger::engine
