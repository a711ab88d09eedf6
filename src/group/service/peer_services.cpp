#include "group/service/peer_services.hpp"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <span>
#include <utility>

namespace outrigger::group {
namespace {

constexpr int kLongestSleepMs = 50;

}  // namespace

PeerServices::PeerServices(std::vector<std::unique_ptr<Stream>> streams, ServiceArea area,
                           std::function<bool()> is_over)
    : transfers_(std::move(streams)), area_(std::move(area)), is_over_(std::move(is_over)), peers_(transfers_.ends()) {}

PeerServices::Verdict PeerServices::agree(std::uint64_t number, std::uint64_t call) {
  vote({.number = number, .call = call});
  awaits_ = number;
  const bool come = wait([&] {
    bool all = true;
    for (std::uint32_t node = 0; node < peers_.size(); ++node) {
      all = read_votes(node, number) && peers_[node].unsent.empty() && all;
    }
    return all;
  });
  awaits_ = 0;
  if (!come) return Verdict::ended;
  for (std::uint32_t node = 0; node < peers_.size(); ++node) {
    const Vote& theirs = peers_[node].last;
    if (transfers_.stream(node) == nullptr) continue;
    if (call == 0 || theirs.number != number || theirs.call != call) return Verdict::apart;
  }
  return Verdict::together;
}

void PeerServices::answer() {
  send_votes();
  for (std::uint32_t node = 0; node < peers_.size(); ++node) {
    if (transfers_.stream(node) == nullptr || !read_votes(node, voted_ + 1)) continue;
    const std::uint64_t number = peers_[node].last.number;
    if (area_.is_by_members(number)) vote({.number = number});
  }
}

void PeerServices::vote(const Vote& own) {
  voted_ = own.number;
  const auto bytes = std::as_bytes(std::span(&own, 1));
  for (std::uint32_t node = 0; node < peers_.size(); ++node) {
    if (transfers_.stream(node) == nullptr || peers_[node].last.number == kNoMore) continue;
    peers_[node].unsent.insert(peers_[node].unsent.end(), bytes.begin(), bytes.end());
  }
  send_votes();
}

void PeerServices::send_votes() {
  for (std::uint32_t node = 0; node < peers_.size(); ++node) {
    std::vector<std::byte>& unsent = peers_[node].unsent;
    if (unsent.empty()) continue;
    const std::size_t sent = transfers_.stream(node)->write(unsent, {});
    unsent.erase(unsent.begin(), unsent.begin() + static_cast<std::ptrdiff_t>(sent));
  }
}

bool PeerServices::read_votes(std::uint32_t node, std::uint64_t number) {
  Stream* stream = transfers_.stream(node);
  Peer& peer = peers_[node];
  while (stream != nullptr && peer.last.number < number) {
    const auto rest = std::as_writable_bytes(std::span(&peer.next, 1)).subspan(peer.next_bytes);
    const std::size_t got = stream->read(rest, {});
    if (got == 0) return false;
    peer.next_bytes += got;
    if (peer.next_bytes < sizeof(Vote)) continue;
    peer.next_bytes = 0;
    peer.last = peer.next;
    if (peer.last.number == kNoMore) peer.unsent.clear();
  }
  return true;
}

bool PeerServices::move() {
  send_votes();
  if (transfers_.move()) {
    area_.head().moves.fetch_add(1, std::memory_order_relaxed);
    spins_until_ = Clock::now() + kSpins;
    return true;
  }
  if (transfers_.difference()) return false;
  if (spin()) return true;
  const std::uint64_t nodes = awaited();
  for (std::uint32_t node = 0; node < peers_.size(); ++node) {
    if ((nodes >> node & 1) == 0 || !is_lost(node)) continue;
    area_.head().lost.fetch_or(std::uint64_t{1} << node, std::memory_order_release);
    return false;
  }
  area_.head().waits_for.store(nodes, std::memory_order_relaxed);
  sleep(nodes);
  long_yields_.slept();
  area_.head().beats.fetch_add(1, std::memory_order_relaxed);
  return !is_over_();
}

bool PeerServices::spin() {
  const Clock::time_point began = Clock::now();
  if (began >= spins_until_ || long_yields_.lately()) return false;
  (void)::sched_yield();
  long_yields_.yielded(Clock::now() - began);
  return true;
}

std::uint64_t PeerServices::awaited() const {
  std::uint64_t nodes = 0;
  for (std::uint32_t node = 0; node < peers_.size(); ++node) {
    const bool has_transfers = transfers_.has_receives(node) || transfers_.has_sends(node);
    const bool has_votes =
        transfers_.stream(node) != nullptr && (peers_[node].last.number < awaits_ || !peers_[node].unsent.empty());
    if (has_transfers || has_votes) nodes |= std::uint64_t{1} << node;
  }
  return nodes;
}

bool PeerServices::is_lost(std::uint32_t node) const {
  const Stream& stream = *transfers_.stream(node);
  return stream.is_closed() || (stream.is_broken() && (transfers_.has_sends(node) || !peers_[node].unsent.empty()));
}

void PeerServices::sleep(std::uint64_t nodes) const {
  std::vector<pollfd> wakes;
  transfers_.add_descriptors(wakes);
  for (std::uint32_t node = 0; node < peers_.size() && awaits_ != 0; ++node) {
    if ((nodes >> node & 1) == 0) continue;
    const int events = POLLIN | (peers_[node].unsent.empty() ? 0 : POLLOUT);
    wakes.push_back({.fd = transfers_.stream(node)->descriptor(), .events = static_cast<short>(events), .revents = 0});
  }
  (void)::poll(wakes.data(), wakes.size(), kLongestSleepMs);
}

}  // namespace outrigger::group
