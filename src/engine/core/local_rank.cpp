#include "engine/core/local_rank.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/core/operation.hpp"

namespace outrigger::engine {
namespace {

// Settles pairs that need no move.
void begin_blocks(const BlockMap& blocks, PairTable& pairs, std::size_t size) {
  const PostedOperation& post = blocks.posted();
  const auto look_at = [&](GroupRank peer) {
    const bool own_done = post.own_block_done && peer == post.me;
    const bool marked = post.mark_of(peer) == BlockMark::delivered;
    if (marked) pairs.set_placed(peer);
    if (own_done || marked || blocks.expected_bytes(peer) == 0) pairs.fill(peer);
    if (own_done || blocks.owed_bytes(peer) == 0) pairs.release(peer);
  };
  const auto all_have_bytes = [](const BlockLayout& layout) {
    return layout.extents.empty() && layout.block_bytes != 0 && !layout.only;
  };
  if (all_have_bytes(post.send) && all_have_bytes(post.receive) && post.marks.empty()) {
    look_at(post.me);
    return;
  }
  for (std::size_t i = 0; i < size; ++i) look_at(group_rank(i));
}

// Delivered marks belong to slices of the result. A pair is a contribution, which is needed until all slices are
// placed.
void begin_reduction(const BlockMap& blocks, PairTable& pairs, std::size_t size) {
  const PostedOperation& post = blocks.posted();
  bool has_all = true;
  for (std::size_t i = 0; i < size; ++i) {
    const GroupRank owner = group_rank(i);
    if (blocks.expected_bytes(owner) == 0) continue;
    const bool marked = post.mark_of(owner) == BlockMark::delivered;
    if (marked) pairs.set_placed(owner);
    has_all = has_all && marked;
  }
  for (std::size_t i = 0; i < size; ++i) {
    const bool own_done = post.own_block_done && i == index_of(post.me);
    if (has_all || !blocks.has_block_of(group_rank(i))) pairs.fill(group_rank(i));
    if (own_done || blocks.owed_bytes(group_rank(i)) == 0) pairs.release(group_rank(i));
  }
}

}  // namespace

LocalRank::LocalRank(Context& context, Operation& operation, PostedOperation&& posted)
    : pairs(context.memory, operation.membership().size(), posted.me),
      blocks(std::move(posted), operation.membership(), operation.remote_buffers, pairs),
      contacts(context.memory, operation.membership().peers().size(), Contact()),
      released(context.scheduler),
      context_(context),
      operation_(operation),
      peer_ready_(context.scheduler),
      filled_(context.scheduler),
      settled_(context.scheduler),
      tasks_(context.scheduler) {
  if (blocks.posted().reduction) {
    begin_reduction(blocks, pairs, operation.membership().size());
  } else {
    begin_blocks(blocks, pairs, operation.membership().size());
  }
  for (const BlockLayout* layout : {&this->posted().send, &this->posted().receive}) {
    for (const GroupRank neighbor : layout->neighbors) {
      const std::uint32_t peer = operation.membership().peer_of(neighbor);
      if (peer != Membership::kSelf) contacts[peer].has_neighbors = true;
    }
  }
}

LocalRank::~LocalRank() {
  tasks_.clear();
  for (std::size_t peer = 0; pairs.any_eager(); ++peer) withdraw_eager(group_rank(peer));
  // A dropped rank gives its window slots back; a completed one has none left.
  while (!completed_ && window_slots != 0) context_.window.leave(window_slots);
  while (!completed_ && near_window_slots != 0) context_.near_window.leave(near_window_slots);
}

void LocalRank::begin(peer::Side side, EagerSends eager) {
  pairs.begin(side);
  eager_sends = eager;
  if (is_filled()) tell_filled();
  for (std::size_t peer = 0; peer < contacts.size(); ++peer) {
    for (const GroupRank rank : operation_.membership().peers()[peer].ranks) {
      if (!pairs.is_settled(rank)) ++contacts[peer].unsettled;
    }
  }
  operation_.reconsider_all_replicas();  // after a restart it has blocks already
}

bool LocalRank::is_settled() const {
  return pairs.all_settled() && readers_ == 0 && operation_.is_quiescent();
}

void LocalRank::set_ready(GroupRank peer, const RemoteBlock& remote, bool by_extent) {
  assert(remote.bytes != 0 && "an empty block needs no move");
  if (by_extent) blocks.learn_extent(context_.memory, peer, remote);
  pairs.set_ready(peer, by_extent);
  peer_ready_.notify();
}

void LocalRank::fill(GroupRank source) {
  if (!pairs.fill(source)) return;
  if (pairs.side() == peer::Side::send) forget_eager(source);
  if (pairs.side() == peer::Side::receive) unsettle_contact(source);
  operation_.reconsider_replicas(source);
  notify();
}

void LocalRank::release(GroupRank destination) {
  if (!pairs.release(destination)) return;
  withdraw_eager(destination);
  if (pairs.side() == peer::Side::send) unsettle_contact(destination);
  notify();
}

void LocalRank::withdraw_eager(GroupRank destination) {
  if (pairs.clear_eager(destination)) {
    context_.fabric.mover.withdraw_eager(BlockId{operation_.id(), me(), destination});
  }
}

void LocalRank::forget_eager(GroupRank source) {
  const Membership& membership = operation_.membership();
  const std::uint32_t peer = membership.peer_of(source);
  if (peer == Membership::kSelf) return;
  context_.fabric.mover.forget_eager(BlockId{operation_.id(), source, me()}, membership.peers()[peer].sp);
}

void LocalRank::unsettle_contact(GroupRank peer) {
  const std::uint32_t service = operation_.membership().peer_of(peer);
  if (service == Membership::kSelf) return;
  assert(contacts[service].unsettled != 0 && "a pair is settled once");
  if (--contacts[service].unsettled == 0) operation_.announcer.settled_at(*this, service);
}

void LocalRank::fail(CompletionStatus status) {
  if (record.status == CompletionStatus::ok || record.status == CompletionStatus::truncated) record.status = status;
}

void LocalRank::notify() {
  if (pairs.all_taken()) peer_ready_.notify();
  if (is_filled()) {
    filled_.notify();
    tell_filled();
  }
  if (pairs.all_released()) released.notify();
  if (is_settled() && settled_.notify()) closing_ = true;
}

// A failure is reported with the end of the operation.
void LocalRank::tell_filled() {
  if (told_filled_ || !posted().kept || !pairs.has_begun() || record.status != CompletionStatus::ok) return;
  told_filled_ = true;
  context_.fabric.ranks.filled(world(), posted().slot, record);
}

void LocalRank::remove_reader() {
  assert(readers_ != 0 && "every reader was counted");
  --readers_;
  notify();
}

std::optional<std::string> LocalRank::broken_invariant() const {
  const Membership& membership = operation_.membership();
  const auto broken = [this](std::string_view what) { return fmt::format("rank {}: {}", world().value(), what); };
  if (const std::optional<std::string> miscounted = pairs.broken_invariant()) return broken(*miscounted);
  std::vector<std::uint32_t> unsettled(contacts.size(), 0);
  for (std::size_t i = 0; i < membership.size(); ++i) {
    const GroupRank peer = group_rank(i);
    const bool ready = pairs[peer].receive == ReceiveState::ready || pairs[peer].send == SendState::ready;
    if (ready && blocks.remote(peer).bytes == 0) return broken(fmt::format("peer {} ready without bytes", i));
    const std::uint32_t service = membership.peer_of(peer);
    if (pairs.has_begun() && service != Membership::kSelf && !pairs.is_settled(peer)) ++unsettled[service];
  }
  const auto kept = [](std::uint32_t counted, const Contact& contact) { return counted == contact.unsettled; };
  if (!std::equal(unsettled.begin(), unsettled.end(), contacts.begin(), contacts.end(), kept))
    return broken("unsettled pairs miscounted");
  if (const std::uint32_t slots = window_slots + near_window_slots; slots > pairs.moves())
    return broken(fmt::format("{} window slots held for {} moves", slots, pairs.moves()));
  if (completed_ && !tasks_.empty()) return broken("completed with tasks left");
  return std::nullopt;
}

// ---------------------------------------------------------------- all local ranks of an operation

void LocalRanks::make(Pool& pool, const Membership& membership) {
  membership_ = &membership;
  by_number_.make(pool, membership.local().size(), nullptr);
  all_.reserve(membership.local().size());
}

LocalRank& LocalRanks::add(std::unique_ptr<LocalRank> rank) {
  LocalRank*& place = by_number_[membership_->number_at_peer(rank->me())];
  assert(place == nullptr && "a rank posts an operation once");
  place = rank.get();
  all_.push_back(std::move(rank));
  return *place;
}

void LocalRanks::close(const LocalRank& rank) {
  by_number_[membership_->number_at_peer(rank.me())] = nullptr;
}

void LocalRanks::remove_completed() {
  std::erase_if(all_, [](const std::unique_ptr<LocalRank>& rank) { return rank->is_completed(); });
}

void LocalRanks::remove(const LocalRank& rank) {
  close(rank);
  const auto place = std::ranges::find_if(all_, [&rank](const auto& other) { return other.get() == &rank; });
  // Its destructor hands its pending work to other ranks, which are looked up in this table.
  const std::unique_ptr<LocalRank> dropped = std::move(*place);
  all_.erase(place);
}

LocalRank* LocalRanks::find(GroupRank rank) const {
  if (!made() || membership_->peer_of(rank) != Membership::kSelf) return nullptr;
  return by_number_[membership_->number_at_peer(rank)];
}

LocalRank* LocalRanks::find_open(GroupRank rank) const {
  LocalRank* found = find(rank);
  return found != nullptr && found->is_open() ? found : nullptr;
}

}  // namespace outrigger::engine
