// flat: broadcast among service processes, each of which serves its ranks. Small blocks go down a binomial tree; large
// ones are scattered and gathered again.
//
// Source: N. Sarkauskas et al., "Large-Message Nonblocking MPI_Iallgather and MPI_Ibcast Offload via BlueField-2 DPU",
// HiPC 2021, section IV.A.
//
// Source and code (stages of IV.A by number; -: the paper says nothing, the choice is ours):
//     1 the first service process reads the root's buffer  | left out: the first rank that has arrived stands for its
//        into its memory                                   |    service process, and `kAtSource` reads at the root
//     2 all service processes broadcast among themselves,  | `ask_ancestors`
//        by MPI_Bcast; for small blocks a binomial tree    |
//        (IV.B)                                            |
//     2 for large ones scatter and allgather (IV.B)        | `ask_leaders`; bcast_by_segments.cpp `scatter`,
//                                                          |    bcast_by_segments.cpp `allgather`
//     3 each writes the block to its host's ranks          | from the first rank's buffer:
//                                                          |    relay/replicas.cpp `fetch.locate(Fetch::State::local)`
//     4 each sets a flag at its ranks, which poll in       | bcast_by_segments.cpp `complete`
//        MPI_Wait                                          |
//     - the size of a large block                          | `limits.split_bytes` or more for each node but the root's
//     - how many segments                                  | `rounds_for`: a node passes one on while it reads the next
//     - a service process without an arrived rank          | is skipped, so only the root waits for late ranks:
//                                                          |    relay/replicas.cpp `Replicas::ask_next`
//
// Small, 5 service processes, numbered from the root's; a parent's number is the child's with the lowest bit cleared:
//
//     root's 0 ──▶ 1
//       │└─────▶ 2 ──▶ 3      each: to its first rank, and from there to its others
//       └──────▶ 4
//
// Large, 4 nodes: the block is scattered in one share per node other than the root's, if shares have at least
// `split_bytes`. The first service process of a share's node is its home and reads it from the root. The first ones of
// the other nodes read it there, and their siblings from them. So no node sends the block more than once.
//
//     0 ──A──▶ 1    B, C from 2, 3
//     │──B──▶ 2    A, C from 1, 3      scatter, then allgather
//     └──C──▶ 3    A, B from 1, 2
//
// Each node's share is cut again (`segment_bytes`) into rounds of one segment a node. A home reads its segments in
// order, two at a time. After each it asks the other homes for their segments of that round, which they have by then.
// An earlier request would go to the root, which sends those segments already.
//
// Rounds: log2 s; of a large block two.
// Per operation, group of p, s service processes with members on n nodes:
//     announcements   the root's to s - 1, the others' to the root's service process (each 108 bytes)
//     moves           p - 1, at most `window_moves` in flight per service process. A large block has a move for each
//                     segment
//     on the wire     A small block goes s - 1 times, log2 s of them from the root's node. A large one goes n - 1
//     times,
//                     at most once from each node. Per rank there is a release (52 bytes). Per move between service
//                     processes that does not begin at the root there are replica request (52), answer (76), done (44)
//     bounds          state O(p) at each rank's service process. The root stays until all ranks have the block
#include "engine/algorithms/bcast_by_segments.hpp"
#include "engine/relay/broadcast_shapes.hpp"

namespace outrigger::engine {
namespace {

// Small: the parent in the binomial tree of service processes, then its ancestors. The root's service process, and
// those that no ancestor can serve, read from the root itself.
std::optional<SpId> ask_ancestors(const Membership& group, const Segment& block, std::uint32_t hop) {
  const std::size_t own = group.place_of(group.self());
  const std::size_t root = group.place_of(group.service_of(block.source));
  const std::optional<std::size_t> above = binomial_ancestor(own, root, group.services().size(), hop + 1);
  if (!above) return std::nullopt;
  return group.services()[*above];
}

SpId leader_of(const Membership& group, std::size_t node) {
  return group.leaders_of_nodes()[node];
}

// Large: the leader of this node, then the leader of the segment's home node, then the root. Homes read their segments
// at the root.
std::optional<SpId> ask_leaders(const Membership& group, const Segment& segment, std::uint32_t hop) {
  const std::size_t own = group.node_of(group.self());
  const std::size_t home = home_node(group, segment);
  if (hop == 0) return leader_of(group, own);
  if (hop == 1 && home != own) return leader_of(group, home);
  return std::nullopt;
}

bool is_leader(const Membership& group, const Segment& /*segment*/) {
  return leader_of(group, group.node_of(group.self())) == group.self();
}

// 1 for small blocks, and if the rank gets only a part of the block.
std::uint32_t segments_of(const Operation& operation, const LocalRank& rank, GroupRank root) {
  const EngineLimits& limits = operation.context.config.limits;
  const std::uint32_t shares = segments_a_round(operation.membership());
  if (shares < 2 || shares > peer::kMaxSegments || !rank.blocks.has_room_for_all_of(root)) return 1;
  const std::uint64_t share_bytes = rank.blocks.pull_bytes(root) / shares;
  if (share_bytes < limits.split_bytes) return 1;
  return static_cast<std::uint32_t>(shares * rounds_for(limits, share_bytes, shares));
}

BroadcastPlan plan_flat(const Operation& operation, const LocalRank& rank, GroupRank root) {
  const Membership& group = operation.membership();
  const std::uint32_t segments = segments_of(operation, rank, root);
  if (segments == 1) return {1, ask_ancestors};                          // down the tree
  if (group.on_own_node(root)) return {1, kAtSource};                    // nothing to scatter on the root's node
  if (!is_leader(group, Segment{root})) return {segments, ask_leaders};  // the leader of this node does the rest
  return {segments, ask_leaders, is_leader};
}

}  // namespace

Task bcast_flat(Operation& operation, LocalRank& rank) {
  return bcast_by_segments(operation, rank, plan_flat);
}

}  // namespace outrigger::engine
