#include "fabric/ucx/peers.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace outrigger::fabric::ucx {

Status Peers::introduce(const JobMap& job_map, SpId self, const Secret& dpu_secret,
                        const std::vector<std::byte>& own_address, const WireOptions& options) {
  if (self.value() >= job_map.sp_count || job_map.address_of(self) != own_address) {
    return Error{"the job map of nodes does not name this service process"};
  }
  self_ = self;
  job_ = proof::identity_of(job_map, dpu_secret);
  const std::uint32_t own_node = job_map.node_of(self);
  const std::uint64_t eager_bytes = std::min(options.eager_bytes_of_peer, options.eager_bytes / job_map.sp_count);
  peers_.resize(job_map.sp_count);
  for (std::uint32_t sp = 0; sp < job_map.sp_count; ++sp) {
    const std::uint32_t node = job_map.node_of(SpId{sp});
    if (node == own_node) continue;
    std::optional<Network::ChannelAddresses> addresses = Network::split(job_map.address_of(SpId{sp}));
    if (!addresses) {
      return Error{"service process " + std::to_string(sp) + " on node " + job_map.nodes[node].name +
                   " has no network address"};
    }
    auto peer = std::make_unique<Peer>();
    peer->sp = SpId{sp};
    peer->greeting = proof::Greeting(job_, self, peer->sp);
    peer->node = job_map.nodes[node].name;
    peer->control.address = std::move((*addresses)[0]);
    peer->data.address = std::move((*addresses)[1]);
    peer->eager = EagerBlocks(eager_bytes, &eager_awaited_bytes_);
    peer->eager_room_bytes = eager_bytes;
    peers_[sp] = std::move(peer);
  }
  return Done{};
}

Peer& Peers::of(SpId sp) {
  if (sp.value() >= peers_.size() || peers_[sp.value()] == nullptr) std::abort();  // on this node: a bug of ours
  return *peers_[sp.value()];
}

Peer* Peers::named(SpId sp) {
  return sp.value() < peers_.size() ? peers_[sp.value()].get() : nullptr;
}

Peer* Peers::sender_of(const wire::Shown& shown) {
  Peer* peer = named(shown.header.from);
  const bool known = peer != nullptr && peer->greeting.knows_peer();
  return known && wire::same_pass(shown.pass, peer->greeting.pass_in()) ? peer : nullptr;
}

wire::Header Peers::header(wire::Kind kind) const {
  wire::Header header;
  header.kind = kind;
  header.from = self_;
  return header;
}

void Peers::lose(const Peer& peer, const std::string& how) {
  fail("node " + peer.node + " is lost: service process " + std::to_string(peer.sp.value()) + " there " + how);
}

}  // namespace outrigger::fabric::ucx
