#include <fmt/format.h>

#include <algorithm>

#include "engine/operation.hpp"

namespace outrigger::engine {

LocalRank::LocalRank(Context& context, Operation& operation, PostedOperation posted, const Membership& membership)
    : operation_(operation),
      membership_(membership),
      posted_(std::move(posted)),
      receive_(membership.size(), ReceiveState::waiting),
      send_(membership.size(), SendState::waiting),
      remote_(membership.size()),
      ready_(membership.size(), posted_.me),
      unsettled_at_peer_(membership.peers().size(), 0),
      announced_(membership.peers().size(), Announced::no),
      peer_ready_(context.scheduler),
      settled_(context.scheduler),
      window_(context.window),
      tasks_(context.scheduler) {
  for (std::size_t i = 0; i < membership.size(); ++i) {
    const GroupRank peer = group_rank(i);
    const bool own_done = posted_.own_block_done && peer == posted_.me;
    const bool marked = !posted_.delivered.empty() && posted_.delivered[i] != 0;
    if (own_done || marked || expected_bytes(peer) == 0) {
      receive_[i] = ReceiveState::filled;
    } else {
      ++unfilled_;
    }
    if (own_done || owed_bytes(peer) == 0) {
      send_[i] = SendState::released;
    } else {
      ++unreleased_;
    }
  }
}

LocalRank::~LocalRank() {
  tasks_.clear();
  // A rank that is dropped leaves the window; one that has completed must have left it by itself.
  while (!completed_ && window_slots_ != 0) window_.leave(window_slots_);
}

void LocalRank::begin(peer::Side side) {
  side_ = side;
  untaken_ = side == peer::Side::send ? unfilled_ : unreleased_;
  for (std::uint32_t peer = 0; peer < membership_.peers().size(); ++peer) {
    for (const GroupRank rank : membership_.peers()[peer].ranks) {
      if (!pair_settled(rank)) ++unsettled_at_peer_[peer];
    }
  }
}

bool LocalRank::pair_settled(GroupRank peer) const {
  return side_ == peer::Side::send ? send_state(peer) == SendState::released
                                   : receive_state(peer) == ReceiveState::filled;
}

std::optional<GroupRank> LocalRank::take_next() {
  if (!ready_.any()) return std::nullopt;
  const GroupRank peer = ready_.take();
  if (side_ == peer::Side::send) {
    receive_[index_of(peer)] = ReceiveState::moving;
  } else {
    send_[index_of(peer)] = SendState::moving;
  }
  --untaken_;
  ++moving_;
  return peer;
}

Block LocalRank::remote_block(GroupRank peer, std::uint64_t bytes) const {
  const RemoteBlock& remote = remote_[index_of(peer)];
  Block block;
  block.memory.owner = membership_.world(peer);
  block.memory.region = remote.region;
  block.memory.address = remote.address;
  block.bytes = bytes;
  return block;
}

Block LocalRank::pull_from(GroupRank source) const {
  return remote_block(source, std::min(remote_[index_of(source)].bytes, expected_bytes(source)));
}

Block LocalRank::pull_to(GroupRank source) const {
  Block block = posted_.receive.block(source);
  block.bytes = std::min(remote_[index_of(source)].bytes, block.bytes);
  return block;
}

Block LocalRank::push_from(GroupRank destination) const {
  Block block = posted_.send.block(destination);
  block.bytes = std::min(remote_[index_of(destination)].bytes, block.bytes);
  return block;
}

Block LocalRank::push_to(GroupRank destination) const {
  return remote_block(destination, std::min(remote_[index_of(destination)].bytes, owed_bytes(destination)));
}

void LocalRank::set_ready(GroupRank peer, const RemoteBlock& remote) {
  remote_[index_of(peer)] = remote;
  if (side_ == peer::Side::send) {
    receive_[index_of(peer)] = ReceiveState::ready;
  } else {
    send_[index_of(peer)] = SendState::ready;
  }
  ready_.insert(peer);
  peer_ready_.notify();
}

void LocalRank::set_filled(GroupRank source) {
  ReceiveState& state = receive_[index_of(source)];
  if (state == ReceiveState::filled) return;
  if (side_ == peer::Side::send && state != ReceiveState::moving) {
    ready_.erase(source);
    --untaken_;
  }
  state = ReceiveState::filled;
  --unfilled_;
  if (side_ == peer::Side::receive) unsettle_peer(source);
  notify();
}

void LocalRank::set_released(GroupRank destination) {
  SendState& state = send_[index_of(destination)];
  if (state == SendState::released) return;
  if (side_ == peer::Side::receive && state != SendState::pushed) {
    ready_.erase(destination);
    --untaken_;
  }
  state = SendState::released;
  --unreleased_;
  if (side_ == peer::Side::send) unsettle_peer(destination);
  notify();
}

void LocalRank::unsettle_peer(GroupRank peer) {
  const std::uint32_t service = membership_.peer_of(peer);
  if (service == Membership::kSelf) return;
  if (--unsettled_at_peer_[service] == 0) operation_.settled_at(*this, service);
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
  if (is_settled()) settled_.notify();
}

std::optional<std::string> LocalRank::broken_invariant() const {
  std::uint32_t unfilled = 0;
  std::uint32_t unreleased = 0;
  std::uint32_t moving = 0;
  std::uint32_t ready = 0;
  std::uint32_t untaken = 0;
  std::vector<std::uint32_t> unsettled(unsettled_at_peer_.size(), 0);
  for (std::size_t i = 0; i < membership_.size(); ++i) {
    const GroupRank peer = group_rank(i);
    const ReceiveState receive = receive_[i];
    const SendState send = send_[i];
    if (receive != ReceiveState::filled) ++unfilled;
    if (send != SendState::released) ++unreleased;
    if (receive == ReceiveState::moving || send == SendState::moving) ++moving;
    if (receive == ReceiveState::ready || send == SendState::ready) {
      ++ready;
      if (!ready_.contains(peer))
        return fmt::format("rank {}: peer {} ready but not in the ready set", world().value(), i);
    }
    if (side_ == peer::Side::send && (receive == ReceiveState::waiting || receive == ReceiveState::ready)) ++untaken;
    if (side_ == peer::Side::receive && (send == SendState::waiting || send == SendState::ready)) ++untaken;
    const std::uint32_t service = membership_.peer_of(peer);
    if (side_ && service != Membership::kSelf && !pair_settled(peer)) ++unsettled[service];
  }
  const auto differ = [this](const char* what, std::uint32_t counted, std::uint32_t kept) {
    return fmt::format("rank {}: {} pairs {}, counter says {}", world().value(), counted, what, kept);
  };
  if (unfilled != unfilled_) return differ("unfilled", unfilled, unfilled_);
  if (unreleased != unreleased_) return differ("unreleased", unreleased, unreleased_);
  if (moving != moving_) return differ("moving", moving, moving_);
  if (ready != ready_.count()) return differ("ready", ready, static_cast<std::uint32_t>(ready_.count()));
  if (side_ && untaken != untaken_) return differ("untaken", untaken, untaken_);
  if (unsettled != unsettled_at_peer_) return fmt::format("rank {}: unsettled pairs miscounted", world().value());
  if (window_slots_ > moving_) {
    return fmt::format("rank {}: {} window slots held for {} moves", world().value(), window_slots_, moving_);
  }
  if (completed_ && tasks_.empty() == false) return fmt::format("rank {}: completed with tasks left", world().value());
  return std::nullopt;
}

}  // namespace outrigger::engine
