#include "engine/core/matcher.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <set>

#include "engine/core/operation.hpp"
#include "engine/core/settlement.hpp"

namespace outrigger::engine {
namespace {

// The block that an announcement gives for the receiver's rank `number`, which is `rank` in the group.
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

Matcher::~Matcher() {
  while (!unexpected_.empty()) remove(unexpected_.begin());
}

// ---------------------------------------------------------------- a local rank announces

void Matcher::match(LocalRank& rank) {
  match_local_ranks(rank);
  for (const auto& [key, unexpected] : unexpected_) {
    if (fits(unexpected.announce, unexpected.from)) apply(unexpected.announce, unexpected.from, rank);
  }
  forget_met();
}

// Ranks of the same service process exchange no messages.
void Matcher::match_local_ranks(LocalRank& rank) {
  const Membership& membership = operation_.membership();
  for (const std::unique_ptr<LocalRank>& each : operation_.ranks.all()) {
    LocalRank& other = *each;
    if (other.is_completed() || !other.pairs.has_begun()) continue;
    if (other.posted().digest != rank.posted().digest || other.pairs.side() != rank.pairs.side()) {
      mismatch(rank, other.me());
      mismatch(other, rank.me());
      continue;
    }
    match_pair(rank, other);
    if (&other != &rank) match_pair(other, rank);
  }
  for (const GroupRank local : membership.local()) {
    if (operation_.ranks.find(local) != nullptr) continue;
    if (const std::optional<CompletionStatus> status = operation_.finished(membership.world(local))) {
      end_pair_with_finished(rank, local, *status);
    }
  }
}

void Matcher::offer_to_local_ranks(LocalRank& rank) {
  for (const std::unique_ptr<LocalRank>& other : operation_.ranks.all()) {
    if (!other->is_completed() && other->pairs.has_begun()) match_pair(rank, *other);
  }
}

void Matcher::match_pair(LocalRank& announcer, LocalRank& reader) {
  if (announcer.held_back) return;
  const bool sends = announcer.pairs.side() == peer::Side::send;
  const BlockLayout& layout = sends ? announcer.posted().send : announcer.posted().receive;
  RemoteBlock remote{layout.address(reader.me()), layout.bytes(reader.me())};
  if (sends) return offer(reader, announcer.me(), remote, !layout.extents.empty());
  if (remote.bytes != 0 && announcer.pairs.is_settled(reader.me())) remote.bytes = peer::kSettled;
  invite(reader, announcer.me(), remote, !layout.extents.empty());
}

// ---------------------------------------------------------------- a peer announces

bool Matcher::fits(const peer::Announce& announce, SpId from) const {
  const Membership& membership = operation_.membership();
  return membership.contains(announce.group_rank) && membership.world(announce.group_rank) == announce.rank &&
         operation_.context.service_of(announce.rank) == from && announce.members == membership.local().size();
}

void Matcher::on_announce(SpId from, peer::Announce announce) {
  const bool members_known = operation_.group.membership() != nullptr;
  if (members_known && !fits(announce, from)) return;
  const bool waits = members_known ? meet_known(announce, from) : meet_restored(announce, from);
  if (waits) keep(from, std::move(announce));
}

bool Matcher::meet_known(const peer::Announce& announce, SpId from) {
  const Membership& membership = operation_.membership();
  Context& context = operation_.context;
  bool waits = false;
  for (std::uint32_t number = announce.first; number < announce.first + announce.count; ++number) {
    const GroupRank local = membership.local()[number];
    LocalRank* rank = operation_.ranks.find(local);
    if (rank != nullptr && rank->pairs.has_begun()) {
      apply(announce, from, *rank);
      continue;
    }
    const WorldRank world = membership.world(local);
    const std::optional<CompletionStatus> status = operation_.finished(world);
    if (rank != nullptr || !status) {
      waits = true;
    } else if (announce.again || context.config.epoch > Epoch{1} || *status != CompletionStatus::ok ||
               announced_block(announce, number, local).bytes != 0) {
      // Reports a failure even if this side of the pair is empty: the other side may have bytes.
      context.send(from, operation_.id(), peer::Finished{world, *status});
    }
  }
  return waits;
}

std::size_t Matcher::count_ended_restored() const {
  return static_cast<std::size_t>(std::ranges::count_if(operation_.group.all_progress(), [&](const auto& entry) {
    return operation_.finished(entry.first).has_value();
  }));
}

bool Matcher::all_local_ranks_have_ended() const {
  const Context& context = operation_.context;
  if (context.dropped_ranks.empty()) return false;
  const auto lost_before = std::ranges::count_if(
      context.dropped_ranks, [&](WorldRank rank) { return !operation_.group.all_progress().contains(rank); });
  return count_ended_restored() + static_cast<std::size_t>(lost_before) == context.local_ranks;
}

// Only restored ranks are known; the others will post or be restored.
bool Matcher::meet_restored(const peer::Announce& announce, SpId from) const {
  tell_of_ended(operation_.context, operation_.group.all_progress(), from, operation_.id());
  return count_ended_restored() < announce.members && !all_local_ranks_have_ended();
}

// Announcements may be repeated. Those of an old incarnation stay valid until the new one repeats them; a completed
// rank never repeats its own.
void Matcher::keep(SpId from, peer::Announce&& announce) {
  Context& context = operation_.context;
  const Epoch epoch = context.epoch_of(from);
  for (auto other = unexpected_.lower_bound({announce.rank, 0});
       other != unexpected_.end() && other->first.first == announce.rank;) {
    const bool replaced = other->second.epoch != epoch || other->first.second == announce.first;
    other = replaced ? remove(other) : std::next(other);
  }
  if (!names_bytes(announce)) {
    if (operation_.group.waiting_announcements >= context.config.limits.waiting_announcements) return;
    ++operation_.group.waiting_announcements;
  }
  const std::pair key{announce.rank, announce.first};
  unexpected_.emplace(key, Unexpected{from, epoch, std::move(announce)});
  Context::raise(context.counters.most_kept_announcements, unexpected_.size());
}

void Matcher::apply(const peer::Announce& announce, SpId from, LocalRank& rank) {
  const GroupRank other = announce.group_rank;
  const std::uint32_t number = operation_.membership().number_at_peer(rank.me());
  if (!covers(announce, number)) return;
  if (announce.digest != rank.posted().digest || announce.side != rank.pairs.side()) {
    return refuse(operation_, rank, other);
  }
  BlockLayout layout;
  layout.base.region = announce.region;
  layout.base.address = announce.base;
  layout.stride_bytes = announce.stride_bytes;
  if (announce.extents.empty()) layout.block_bytes = announce.block_bytes;
  operation_.remote_buffers.learn(other, layout, operation_.context.epoch_of(from));
  const RemoteBlock remote = announced_block(announce, number, rank.me());
  const bool by_extent = !announce.extents.empty();
  if (announce.side == peer::Side::send) return offer(rank, other, remote, by_extent);
  // A restarted source does not know which of its blocks are here.
  if (announce.again && rank.pairs[other].receive == ReceiveState::filled) {
    release_source(operation_, rank, other, CompletionStatus::ok);
  }
  invite(rank, other, remote, by_extent);
}

// ---------------------------------------------------------------- results of a match

// Makes a source's block ready to be pulled.
void Matcher::offer(LocalRank& destination, GroupRank source, const RemoteBlock& remote, bool by_extent) {
  if (source == destination.me() && destination.posted().own_block_done) return;
  const ReceiveState state = destination.pairs[source].receive;
  if (remote.bytes == peer::kSettled) {
    // The source needs no answer. It was released although the mark is missing only if this rank had failed: the
    // incarnation that knows why is gone.
    if (state != ReceiveState::waiting) return;
    destination.fail(CompletionStatus::peer_lost);
    destination.fill(source);
    return;
  }
  if (!destination.blocks.has_room_for(source, remote.bytes)) destination.fail(CompletionStatus::truncated);
  if (state == ReceiveState::waiting && remote.bytes != 0) {
    destination.set_ready(source, remote, by_extent);
  } else if (state == ReceiveState::waiting) {
    destination.fill(source);
  } else if (state == ReceiveState::filled && remote.bytes != 0) {
    destination.forget_eager(source);
    release_source(operation_, destination, source, CompletionStatus::ok);
  }
}

// Makes a destination's buffer ready to be written.
void Matcher::invite(LocalRank& source, GroupRank destination, const RemoteBlock& remote, bool by_extent) {
  if (destination == source.me() && source.posted().own_block_done) return;
  if (remote.bytes == peer::kSettled) return release_pair(source, destination, CompletionStatus::ok);
  const PairState& pair = source.pairs[destination];
  switch (pair.send) {
    case SendState::waiting:
      if (remote.bytes != 0) return source.set_ready(destination, remote, by_extent);
      source.pairs.skip_push(destination);
      source.notify();
      report_push(operation_, source, destination);
      return;
    case SendState::ready:
    case SendState::moving: return;  // reported at the end of the move
    case SendState::pushed: report_push(operation_, source, destination); return;
    case SendState::released:
      if (remote.bytes == 0) return;
      // Released without a push by this incarnation: the destination has its mark.
      if (source.blocks.owed_bytes(destination) != 0 && !pair.announced) return;
      report_push(operation_, source, destination);
      return;
  }
}

// ---------------------------------------------------------------- kept announcements

std::uint32_t Matcher::count_early(GroupRank rank) const {
  const std::uint32_t number = operation_.membership().number_at_peer(rank);
  const auto of_peers = std::count_if(unexpected_.begin(), unexpected_.end(),
                                      [&](const auto& entry) { return covers(entry.second.announce, number); });
  const LocalRanks::Parts& local = operation_.ranks.all();
  const auto of_local =
      std::count_if(local.begin(), local.end(), [](const auto& other) { return other->pairs.has_begun(); });
  return static_cast<std::uint32_t>(of_peers + of_local);
}

bool Matcher::keeps(SpId from, GroupRank source) const {
  return std::ranges::any_of(unexpected_, [&](const auto& entry) {
    return entry.second.from == from && entry.second.announce.group_rank == source;
  });
}

void Matcher::forget_met() {
  if (unexpected_.empty()) return;
  const Membership& membership = operation_.membership();
  for (const GroupRank local : membership.local()) {
    const LocalRank* rank = operation_.ranks.find(local);
    if (rank != nullptr ? !rank->pairs.has_begun() : !operation_.finished(membership.world(local))) return;
  }
  while (!unexpected_.empty()) remove(unexpected_.begin());
}

void Matcher::forget_met_by_restored() {
  if (operation_.group.membership() != nullptr) return forget_met();
  const std::size_t ended = all_local_ranks_have_ended() ? operation_.context.local_ranks : count_ended_restored();
  for (auto unexpected = unexpected_.begin(); unexpected != unexpected_.end();) {
    const bool met = unexpected->second.announce.members <= ended;
    unexpected = met ? remove(unexpected) : std::next(unexpected);
  }
}

void Matcher::tell_announcers(const peer::Finished& finished) const {
  std::set<SpId> told;
  for (const auto& [key, unexpected] : unexpected_) {
    if (told.insert(unexpected.from).second) operation_.context.send(unexpected.from, operation_.id(), finished);
  }
}

Matcher::UnexpectedTable::iterator Matcher::remove(UnexpectedTable::iterator unexpected) {
  if (!names_bytes(unexpected->second.announce)) {
    assert(operation_.group.waiting_announcements != 0 && "waiting announcements were counted");
    --operation_.group.waiting_announcements;
  }
  return unexpected_.erase(unexpected);
}

}  // namespace outrigger::engine
