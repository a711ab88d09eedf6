#include "engine/core/barrier_shape.hpp"

#include <cstddef>
#include <vector>

namespace outrigger::engine {
namespace {

GroupRank first_of(const Membership& group, SpId service) {
  if (service == group.self()) return group.local().front();
  for (const Membership::Peer& peer : group.peers()) {
    if (peer.sp == service) return peer.ranks.front();
  }
  return GroupRank{0};  // unreachable: a service process in the group serves a member
}

// The parent of this service process; nullopt at the root.
std::optional<SpId> service_above(const Membership& group, SpId service) {
  const std::size_t node = group.node_of(service);
  const SpId leader = group.leaders_of_nodes()[node];
  if (service != leader) return leader;
  if (node == 0) return std::nullopt;
  return group.leaders_of_nodes()[node & (node - 1)];
}

}  // namespace

std::optional<GroupRank> barrier_parent(const Membership& group, GroupRank rank) {
  const SpId service = group.service_of(rank);
  const GroupRank first = first_of(group, service);
  if (rank != first) return first;
  const std::optional<SpId> above = service_above(group, service);
  if (!above) return std::nullopt;
  return first_of(group, *above);
}

void set_barrier_pairs(PostedOperation& operation, const Membership& group) {
  operation.send = operation.receive = BlockLayout();
  operation.send.base.owner = operation.receive.base.owner = operation.rank;
  operation.kept = false;  // a rank without a block to wait for still waits for its parent
  operation.send.only = barrier_parent(group, operation.me);
  operation.send.block_bytes = operation.send.only ? 1 : 0;
  if (operation.me != group.local().front()) return;
  operation.receive.extents.resize(group.size());
  for (const GroupRank local : group.local().subspan(1)) operation.receive.extents[index_of(local)].bytes = 1;
  for (const Membership::Peer& peer : group.peers()) {
    if (service_above(group, peer.sp) == group.self()) {
      operation.receive.extents[index_of(peer.ranks.front())].bytes = 1;
    }
  }
}

}  // namespace outrigger::engine
