#include <fmt/format.h>

#include <algorithm>

#include "engine/core/operation.hpp"

namespace outrigger::engine {

LocalRank::LocalRank(Context& context, Operation& operation, PostedOperation&& posted, const Membership& membership)
    : context_(context),
      operation_(operation),
      membership_(membership),
      posted_(std::move(posted)),
      pairs_(context.memory, membership.size(), PairState()),
      ready_(context.memory, membership.size(), posted_.me),
      peers_(context.memory, membership.peers().size(), PeerState()),
      peer_ready_(context.scheduler),
      filled_(context.scheduler),
      settled_(context.scheduler),
      window_(context.window),
      tasks_(context.scheduler) {
  unfilled_ = unreleased_ = static_cast<std::uint32_t>(membership.size());
  const auto look_at = [this](GroupRank peer) {
    const bool own_done = posted_.own_block_done && peer == posted_.me;
    const bool marked = !posted_.delivered.empty() && posted_.delivered[index_of(peer)] != 0;
    if (marked) pairs_[index_of(peer)].placed = true;
    if (own_done || marked || expected_bytes(peer) == 0) {
      pairs_[index_of(peer)].receive = ReceiveState::filled;
      --unfilled_;
    }
    if (own_done || owed_bytes(peer) == 0) {
      pairs_[index_of(peer)].send = SendState::released;
      --unreleased_;
    }
  };
  const auto all_have_bytes = [](const BlockLayout& layout) {
    return layout.extents.empty() && layout.block_bytes != 0 && !layout.only;
  };
  if (all_have_bytes(posted_.send) && all_have_bytes(posted_.receive) && posted_.delivered.empty()) {
    look_at(posted_.me);
    return;
  }
  for (std::size_t i = 0; i < membership.size(); ++i) look_at(group_rank(i));
}

LocalRank::~LocalRank() {
  tasks_.clear();
  for (std::size_t peer = 0; eager_ != 0; ++peer) withdraw_eager(group_rank(peer));
  // A rank that is dropped leaves the window; one that has completed must have left it by itself.
  while (!completed_ && window_slots_ != 0) window_.leave(window_slots_);
}

void LocalRank::begin(peer::Side side) {
  side_ = side;
  untaken_ = side == peer::Side::send ? unfilled_ : unreleased_;
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    for (const GroupRank rank : membership_.peers()[peer].ranks) {
      if (!pair_settled(rank)) ++peers_[peer].unsettled;
    }
  }
}

bool LocalRank::is_settled() const {
  return is_filled() && unreleased_ == 0 && moving_ == 0 && readers_ == 0 && operation_.quiet();
}

bool LocalRank::pair_settled(GroupRank peer) const {
  return side_ == peer::Side::send ? send_state(peer) == SendState::released
                                   : receive_state(peer) == ReceiveState::filled;
}

std::optional<GroupRank> LocalRank::take_next() {
  if (!ready_.any()) return std::nullopt;
  const GroupRank peer = ready_.take();
  if (side_ == peer::Side::send) {
    pairs_[index_of(peer)].receive = ReceiveState::moving;
  } else {
    pairs_[index_of(peer)].send = SendState::moving;
  }
  --untaken_;
  ++moving_;
  return peer;
}

Block LocalRank::remote_block(GroupRank peer, std::uint64_t bytes) const {
  const RemoteBlock end = remote(peer);
  Block block;
  block.memory.owner = membership_.world(peer);
  block.memory.region = operation_.remote_buffer(peer).region;
  block.memory.address = end.address;
  block.bytes = std::min(end.bytes, bytes);
  return block;
}

std::uint64_t LocalRank::pull_bytes(GroupRank source) const {
  return std::min(remote(source).bytes, expected_bytes(source));
}

Block LocalRank::pull_from(GroupRank source) const {
  return remote_block(source, expected_bytes(source));
}

Block LocalRank::pull_to(GroupRank source) const {
  Block block = posted_.receive.block(source);
  block.bytes = pull_bytes(source);
  return block;
}

Block LocalRank::push_from(GroupRank destination) const {
  Block block = posted_.send.block(destination);
  block.bytes = std::min(remote(destination).bytes, block.bytes);
  return block;
}

Block LocalRank::push_to(GroupRank destination) const {
  return remote_block(destination, owed_bytes(destination));
}

void LocalRank::set_ready(GroupRank peer, const RemoteBlock& remote, bool by_extent) {
  PairState& pair = pairs_[index_of(peer)];
  pair.announced = true;
  if (by_extent) {
    if (extents_.empty()) extents_.make(context_.memory, membership_.size(), RemoteBlock());
    extents_[index_of(peer)] = remote;
    pair.by_extent = true;
  }
  if (side_ == peer::Side::send) {
    pair.receive = ReceiveState::ready;
  } else {
    pair.send = SendState::ready;
  }
  ready_.insert(peer);
  peer_ready_.notify();
}

void LocalRank::set_pushed(GroupRank destination, CompletionStatus status, Reach reach) {
  PairState& pair = pairs_[index_of(destination)];
  pair.send = SendState::pushed;
  pair.pushed_status = static_cast<std::uint8_t>(status) & 0x7U;
  pair.pushed_reach = static_cast<std::uint8_t>(reach) & 0x7U;
}

void LocalRank::set_filled(GroupRank source) {
  ReceiveState& state = pairs_[index_of(source)].receive;
  if (state == ReceiveState::filled) return;
  if (side_ == peer::Side::send && state != ReceiveState::moving) {
    ready_.erase(source);
    --untaken_;
  }
  state = ReceiveState::filled;
  --unfilled_;
  if (side_ == peer::Side::send) forget_eager(source);
  if (side_ == peer::Side::receive) unsettle_peer(source);
  operation_.block_ended();
  notify();
}

void LocalRank::set_released(GroupRank destination) {
  PairState& pair = pairs_[index_of(destination)];
  if (pair.send == SendState::released) return;
  if (side_ == peer::Side::receive && pair.send != SendState::pushed) {
    ready_.erase(destination);
    --untaken_;
  }
  pair.send = SendState::released;
  --unreleased_;
  withdraw_eager(destination);
  if (side_ == peer::Side::send) unsettle_peer(destination);
  notify();
}

void LocalRank::withdraw_eager(GroupRank destination) {
  PairState& pair = pairs_[index_of(destination)];
  if (!pair.ahead) return;
  pair.ahead = false;
  --eager_;
  context_.fabric.withdraw_eager(BlockId{operation_.id(), me(), destination});
}

// Of a block that this rank does not need (any more).
void LocalRank::forget_eager(GroupRank source) {
  const std::uint32_t peer = membership_.peer_of(source);
  if (peer == Membership::kSelf) return;
  context_.fabric.forget_eager(BlockId{operation_.id(), source, me()}, membership_.peers()[peer].sp);
}

void LocalRank::unsettle_peer(GroupRank peer) {
  const std::uint32_t service = membership_.peer_of(peer);
  if (service == Membership::kSelf) return;
  if (--peers_[service].unsettled == 0) operation_.settled_at(*this, service);
}

void LocalRank::end_move() {
  --moving_;
}

// The first failure counts; a truncation, where bytes did arrive, gives way to whatever is worse.
void LocalRank::fail(CompletionStatus status) {
  if (status_ == CompletionStatus::ok || status_ == CompletionStatus::truncated) status_ = status;
}

void LocalRank::notify() {
  if (untaken_ == 0) peer_ready_.notify();
  if (is_filled()) filled_.notify();
  if (is_settled() && settled_.notify()) closing_ = true;  // it will complete: nobody begins to read here any more
}

std::optional<std::string> LocalRank::broken_invariant() const {
  std::uint32_t unfilled = 0;
  std::uint32_t unreleased = 0;
  std::uint32_t moving = 0;
  std::uint32_t ready = 0;
  std::uint32_t untaken = 0;
  std::uint32_t ahead = 0;
  std::vector<std::uint32_t> unsettled(peers_.size(), 0);
  for (std::size_t i = 0; i < membership_.size(); ++i) {
    const GroupRank peer = group_rank(i);
    const ReceiveState receive = pairs_[i].receive;
    const SendState send = pairs_[i].send;
    if (receive != ReceiveState::filled) ++unfilled;
    if (send != SendState::released) ++unreleased;
    if (pairs_[i].ahead) ++ahead;
    if (receive == ReceiveState::moving || send == SendState::moving) ++moving;
    if (receive == ReceiveState::ready || send == SendState::ready) {
      ++ready;
      if (!ready_.contains(peer)) {
        return fmt::format("rank {}: peer {} ready but not in the ready set", world().value(), i);
      }
      if (remote(peer).bytes == 0) return fmt::format("rank {}: peer {} ready without bytes", world().value(), i);
    }
    if (side_ == peer::Side::send && (receive == ReceiveState::waiting || receive == ReceiveState::ready)) ++untaken;
    if (side_ == peer::Side::receive && (send == SendState::waiting || send == SendState::ready)) ++untaken;
    const std::uint32_t service = membership_.peer_of(peer);
    if (has_announced() && service != Membership::kSelf && !pair_settled(peer)) ++unsettled[service];
  }
  const auto differ = [this](const char* what, std::uint32_t counted, std::uint32_t kept) {
    return fmt::format("rank {}: {} pairs {}, counter says {}", world().value(), counted, what, kept);
  };
  if (unfilled != unfilled_) return differ("unfilled", unfilled, unfilled_);
  if (unreleased != unreleased_) return differ("unreleased", unreleased, unreleased_);
  if (ahead != eager_) return differ("ahead", ahead, eager_);
  if (moving != moving_) return differ("moving", moving, moving_);
  if (ready != ready_.count()) return differ("ready", ready, static_cast<std::uint32_t>(ready_.count()));
  if (has_announced() && untaken != untaken_) return differ("untaken", untaken, untaken_);
  const auto kept = [](std::uint32_t counted, const PeerState& peer) { return counted == peer.unsettled; };
  if (!std::equal(unsettled.begin(), unsettled.end(), peers_.begin(), peers_.end(), kept))
    return fmt::format("rank {}: unsettled pairs miscounted", world().value());
  if (window_slots_ > moving_ + extra_moves_) {
    return fmt::format("rank {}: {} window slots held for {} moves", world().value(), window_slots_,
                       moving_ + extra_moves_);
  }
  if (completed_ && tasks_.empty() == false) return fmt::format("rank {}: completed with tasks left", world().value());
  return std::nullopt;
}

}  // namespace outrigger::engine
