#include "fabric/ucx/peers.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace outrigger::fabric::ucx {
namespace {

// Each takes some hundred bytes and its connections.
constexpr std::size_t kMostFormer = 4096;

}  // namespace

Status Peers::introduce(const JobMap& job_map, SpId self, Epoch self_epoch, const Secret& dpu_secret,
                        const std::vector<std::byte>& own_address, const WireOptions& options) {
  if (self.value() >= job_map.sp_count || job_map.address_of(self) != own_address) {
    return Error{"the job map does not contain this service process"};
  }
  self_ = self;
  self_epoch_ = self_epoch;
  job_ = proof::identity_of(job_map, dpu_secret);
  const std::uint32_t own_node = job_map.node_of(self);
  eager_bytes_of_peer_ = std::min(options.eager_bytes_of_peer, options.eager_bytes / job_map.sp_count);
  const std::span<LinkCounts> links = options.links ? options.links() : std::span<LinkCounts>();
  peers_.resize(job_map.sp_count);
  for (std::uint32_t sp = 0; sp < job_map.sp_count; ++sp) {
    const std::uint32_t node = job_map.node_of(SpId{sp});
    if (node == own_node) continue;
    std::optional<ChannelAddresses> addresses = decoded<ChannelAddresses>(job_map.address_of(SpId{sp}));
    if (!addresses) {
      return Error{"service process " + std::to_string(sp) + " on node " + job_map.nodes[node].name +
                   " has no network address"};
    }
    peers_[sp] = make_peer(SpId{sp}, Epoch{1}, job_map.nodes[node].name, std::move(*addresses));
    if (!links.empty()) peers_[sp]->link = &links[link_place(node)];
  }
  return Done{};
}

std::unique_ptr<Peer> Peers::make_peer(SpId sp, Epoch epoch, const std::string& node, ChannelAddresses&& addresses) {
  auto peer = std::make_unique<Peer>();
  peer->sp = sp;
  peer->epoch = epoch;
  peer->handshake = proof::Handshake(job_, self_, sp, self_epoch_, epoch);
  peer->node = node;
  peer->control.address = std::move(addresses.control);
  peer->data.address = std::move(addresses.data);
  peer->eager = EagerBlocks(eager_bytes_of_peer_, &eager_awaited_bytes_);
  peer->eager_room_bytes = eager_bytes_of_peer_;
  return peer;
}

// Does not close the old connections: UCX notices by itself that the process at the other end has ended, and UCX 1.13
// may crash when a connection is closed that has just failed.
Result<Peers::Replaced> Peers::replace(SpId sp, Epoch epoch, std::span<const std::byte> address) {
  std::optional<ChannelAddresses> addresses = decoded<ChannelAddresses>(address);
  if (!addresses) return Error{"service process " + std::to_string(sp.value()) + " has no network address"};
  if (former_.size() >= kMostFormer) return Error{"too many service processes have been replaced"};
  std::unique_ptr<Peer>& place = peers_[sp.value()];
  auto fresh = make_peer(sp, epoch, place->node, std::move(*addresses));
  fresh->link = place->link;
  fresh->wanted = place->is_known() || place->called_by_next;
  fresh->held_back = true;
  if (!place->held_back) ++held_back_;
  former_.push_back(std::exchange(place, std::move(fresh)));
  Peer& former = *former_.back();
  former.replaced = former.broken = true;
  former.held_back = false;
  former.outbox.clear();
  former.early_messages.clear();
  former.eager.clear();
  former.ready.clear();
  former.to_send.clear();
  return Replaced{former, *place};
}

bool Peers::at_rest(SpId sp) const {
  return std::ranges::none_of(former_, [&](const auto& former) { return former->sp == sp && former->landing != 0; });
}

Peer* Peers::next_let_go() {
  if (held_back_ == 0) return nullptr;
  for (const auto& peer : peers_) {
    if (peer == nullptr || !peer->held_back || !at_rest(peer->sp)) continue;
    peer->held_back = false;
    --held_back_;
    return peer.get();
  }
  return nullptr;
}

const Peer* Peers::one_held_back() const {
  const auto found = std::ranges::find_if(peers_, [](const auto& peer) { return peer != nullptr && peer->held_back; });
  return found == peers_.end() ? nullptr : found->get();
}

Peer& Peers::of(SpId sp) {
  if (sp.value() >= peers_.size() || peers_[sp.value()] == nullptr) std::abort();  // on this node: a bug
  return *peers_[sp.value()];
}

Peer* Peers::named(SpId sp) {
  return sp.value() < peers_.size() ? peers_[sp.value()].get() : nullptr;
}

Peer* Peers::sender_of(const wire::Shown& shown) {
  Peer* peer = named(shown.header.from);
  const bool known = peer != nullptr && peer->handshake.knows_peer();
  return known && wire::same_token(shown.token, peer->handshake.token_in()) ? peer : nullptr;
}

wire::Header Peers::header(wire::Kind kind) const {
  wire::Header header;
  header.kind = kind;
  header.from = self_;
  return header;
}

void Peers::begin_anew(const std::string& how, const Peer& peer) {
  failure_ = PortFailure{how + " to service process " + std::to_string(peer.sp.value()) + " on node " + peer.node,
                         PortFailure::Of::connection};
}

void Peers::lose(const Peer& peer, const std::string& how) {
  if (!peer.unreachable.empty()) return fail("node " + peer.node + ": " + peer.unreachable);
  fail("node " + peer.node + " is lost: service process " + std::to_string(peer.sp.value()) + " there " + how);
}

}  // namespace outrigger::fabric::ucx
