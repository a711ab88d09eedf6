#include "engine/core/announcer.hpp"

#include <algorithm>
#include <cassert>
#include <set>
#include <span>
#include <utility>

#include "engine/core/operation.hpp"
#include "engine/core/reduction_steps.hpp"

namespace outrigger::engine {
namespace {

// `ranks` from the first to the last neighbor. At least one of `ranks` is a neighbor.
std::span<const GroupRank> with_neighbors(const PostedOperation& posted, std::span<const GroupRank> ranks) {
  const auto is_neighbor = [&posted](GroupRank rank) {
    return std::ranges::binary_search(posted.send.neighbors, rank) ||
           std::ranges::binary_search(posted.receive.neighbors, rank);
  };
  while (!ranks.empty() && !is_neighbor(ranks.front())) ranks = ranks.subspan(1);
  while (!ranks.empty() && !is_neighbor(ranks.back())) ranks = ranks.first(ranks.size() - 1);
  return ranks;
}

// The ranks of a service process that need the announcement. A block for one rank is announced to that rank only.
std::span<const GroupRank> concerned(const PostedOperation& posted, const BlockLayout& layout,
                                     const Membership::Peer& service) {
  const std::span<const GroupRank> all(service.ranks);
  if (is_of_neighbors(posted.collective)) return with_neighbors(posted, all);
  if (!layout.only) return all;
  const auto only = std::ranges::find(all, *layout.only);
  return only == all.end() ? all : all.subspan(static_cast<std::size_t>(only - all.begin()), 1);
}

// The whole block that `rank` sends to a destination.
Block eager_block(const Operation& operation, const LocalRank& rank, GroupRank destination) {
  Block block = rank.posted().send.block(destination);
  if (rank.eager_sends != EagerSends::slices) return block;
  const std::vector<PairExtent>& slices = rank.posted().receive.extents;
  const PairExtent slice = index_of(destination) < slices.size() ? slices[index_of(destination)] : PairExtent();
  if (!sends_contributions(operation, rank.posted(), slice.bytes)) return Block();
  block.memory.address += static_cast<std::uint64_t>(slice.offset_bytes);
  block.bytes = slice.bytes;
  return block;
}

}  // namespace

void Announcer::announce(LocalRank& rank) {
  const bool waits = rank.posted().collective == Collective::ibarrier;
  for (std::uint32_t peer = 0; peer < outstanding_.size(); ++peer) {
    if (!waits || peer != peer_above(rank)) announce_to(rank, peer);
  }
}

void Announcer::announce_above(LocalRank& rank) {
  const std::uint32_t above = peer_above(rank);
  if (above != Membership::kSelf) announce_to(rank, above);
}

std::uint32_t Announcer::peer_above(const LocalRank& rank) const {
  const std::optional<GroupRank>& parent = rank.posted().send.only;
  return parent ? operation_.membership().peer_of(*parent) : Membership::kSelf;
}

bool Announcer::concerns(const LocalRank& rank, std::uint32_t peer) const {
  if (rank.posted().collective == Collective::ibarrier) {
    const auto expected = [&](GroupRank other) { return rank.posted().receive.bytes(other) != 0; };
    return peer == peer_above(rank) || std::ranges::any_of(operation_.membership().peers()[peer].ranks, expected);
  }
  if (is_of_neighbors(rank.posted().collective)) return rank.contacts[peer].has_neighbors;
  const GroupRank root{rank.posted().root};
  const bool has_root = is_rooted(rank.posted().collective) || is_for_root(rank.posted().collective) ||
                        rank.posted().algorithm == Algorithm::rooted;
  return !has_root || rank.me() == root || operation_.membership().peer_of(root) == peer;
}

void Announcer::announce_to(LocalRank& rank, std::uint32_t peer) {
  Contact& contact = rank.contacts[peer];
  if (!concerns(rank, peer)) {
    contact.announced = Contact::Announced::yes;
    return;
  }
  if (contact.unsettled == 0) {
    contact.announced = Contact::Announced::yes;  // needs no credit: the peer waits for nothing
    send(rank, peer, false);
    return;
  }
  std::set<std::pair<std::uint64_t, GroupRank>>& waiting = operation_.group.credit_lines()[peer].waiting;
  waiting.emplace(operation_.sequence, rank.me());
  Context::raise(operation_.context.counters.most_announcements_waiting, waiting.size());
  operation_.group.send_waiting(peer);
}

bool Announcer::announce_with_credit(GroupRank rank, std::uint32_t peer) {
  LocalRank* local = operation_.ranks.find(rank);
  if (local == nullptr) return false;
  Contact& contact = local->contacts[peer];
  assert(contact.announced == Contact::Announced::no && "a rank is announced to a peer once");
  const bool with_credit = contact.unsettled != 0;
  contact.announced = with_credit ? Contact::Announced::with_credit : Contact::Announced::yes;
  if (with_credit) ++outstanding_[peer];
  send(*local, peer, false);
  return with_credit;
}

void Announcer::settled_at(LocalRank& rank, std::uint32_t peer) {
  Contact::Announced& announced = rank.contacts[peer].announced;
  CreditLine& line = operation_.group.credit_lines()[peer];
  if (announced == Contact::Announced::no && line.waiting.erase({operation_.sequence, rank.me()}) != 0) {
    // Settled before the announcement is sent: a destination that expects more bytes still waits for the announcement.
    announced = Contact::Announced::yes;
    send(rank, peer, false);
    return;
  }
  if (announced != Contact::Announced::with_credit) return;
  announced = Contact::Announced::yes;
  assert(outstanding_[peer] != 0 && line.in_use != 0 && "a credit is given back once");
  if (--outstanding_[peer] != 0) return;
  --line.in_use;
  operation_.group.send_waiting(peer);
}

void Announcer::give_back_credits(LocalRank& rank) {
  for (std::uint32_t peer = 0; peer < rank.contacts.size(); ++peer) {
    if (rank.contacts[peer].announced == Contact::Announced::no) {
      operation_.group.credit_lines()[peer].waiting.erase({operation_.sequence, rank.me()});
    }
    settled_at(rank, peer);
  }
}

bool Announcer::sends_eagerly(const LocalRank& rank, const Membership::Peer& reader) const {
  const Membership& membership = operation_.membership();
  switch (rank.eager_sends) {
    case EagerSends::no: break;
    case EagerSends::slices: return sends_short_slices(operation_, *rank.posted().reduction);
    case EagerSends::to_lone_ranks:
      return reader.ranks.size() == 1 && membership.services_by_node()[membership.node_of(reader.sp)].size() == 1;
    case EagerSends::to_all: return true;
  }
  return false;
}

// Eager blocks are hints, so they are sent once: a restarted peer asks for the blocks that it lost.
void Announcer::send_eager(LocalRank& rank, const Membership::Peer& reader) {
  for (const GroupRank destination : reader.ranks) {
    const PairState& pair = rank.pairs[destination];
    if (pair.send == SendState::released || pair.eager) continue;
    const Block block = eager_block(operation_, rank, destination);
    if (block.bytes == 0) continue;
    rank.pairs.set_eager(destination);
    operation_.context.fabric.mover.send_eager(BlockId{operation_.id(), rank.me(), destination}, block, reader.sp);
  }
}

// The message shows the current state: a repeated or delayed announcement marks the pairs that are settled by now.
void Announcer::send(LocalRank& rank, std::uint32_t peer, bool again) {
  Context& context = operation_.context;
  const Membership::Peer& service = operation_.membership().peers()[peer];
  const PostedOperation& posted = rank.posted();
  const BlockLayout& layout = rank.pairs.side() == peer::Side::send ? posted.send : posted.receive;
  peer::Announce announce;
  announce.side = rank.pairs.side();
  announce.again = again || context.config.epoch > Epoch{1};
  announce.rank = rank.world();
  announce.group_rank = rank.me();
  announce.collective = posted.collective;
  announce.algorithm = posted.algorithm;
  announce.root = posted.root;
  announce.digest = posted.digest;
  announce.region = layout.base.region;
  announce.base = layout.base.address;
  announce.members = static_cast<std::uint32_t>(service.ranks.size());
  const std::span<const GroupRank> told = concerned(posted, layout, service);
  announce.first = static_cast<std::uint32_t>(told.data() - service.ranks.data());
  if (!again && sends_eagerly(rank, service)) send_eager(rank, service);
  const auto settled = [&](GroupRank other) { return layout.bytes(other) != 0 && rank.pairs.is_settled(other); };
  // In a prefix collective, ranks before this one have no pair here; they report their own end.
  const bool alike = layout.extents.empty() && layout.bytes(told.front()) == layout.bytes(told.back());
  const bool regular = alike && std::none_of(told.begin(), told.end(), settled);
  if (regular) {
    announce.stride_bytes = layout.stride_bytes;
    announce.block_bytes = layout.bytes(told.front());
    announce.count = static_cast<std::uint32_t>(told.size());
    context.send(service.sp, operation_.id(), std::move(announce));
    return;
  }
  const std::size_t limit = context.config.limits.message_bytes;
  const std::size_t fixed = peer::announce_bytes();
  const std::size_t most = limit > fixed + peer::kExtentBytes ? (limit - fixed) / peer::kExtentBytes : 1;
  for (std::size_t first = 0; first < told.size(); first += most) {
    const std::span<const GroupRank> named = told.subspan(first, std::min(most, told.size() - first));
    peer::Announce section = announce;
    section.first += static_cast<std::uint32_t>(first);
    section.count = static_cast<std::uint32_t>(named.size());
    for (const GroupRank other : named) {
      const Block block = layout.block(other);
      PairExtent extent;
      extent.offset_bytes = static_cast<std::int64_t>(block.memory.address - layout.base.address);
      extent.bytes = settled(other) ? peer::kSettled : block.bytes;
      section.extents.push_back(extent);
    }
    context.send(service.sp, operation_.id(), std::move(section));
  }
}

void Announcer::reannounce(std::uint32_t peer) {
  for (const std::unique_ptr<LocalRank>& rank : operation_.ranks.all()) {
    if (rank->is_completed() || !rank->pairs.has_begun()) continue;
    if (rank->contacts[peer].announced == Contact::Announced::no) continue;
    if (concerns(*rank, peer)) send(*rank, peer, true);
  }
}

std::optional<std::string> Announcer::broken_invariant() const {
  std::vector<std::uint32_t> outstanding(outstanding_.size(), 0);
  for (const std::unique_ptr<LocalRank>& rank : operation_.ranks.all()) {
    for (std::size_t peer = 0; peer < outstanding.size(); ++peer) {
      if (rank->contacts[peer].announced == Contact::Announced::with_credit) ++outstanding[peer];
    }
  }
  if (!std::equal(outstanding.begin(), outstanding.end(), outstanding_.begin(), outstanding_.end()))
    return "credits miscounted";
  return std::nullopt;
}

}  // namespace outrigger::engine
