// hierarchical: broadcast among nodes, which get the block once each, and then within them.
//
// Source: N. Sarkauskas et al., "Large-Message Nonblocking MPI_Iallgather and MPI_Ibcast Offload via BlueField-2 DPU",
// HiPC 2021, section IV.B.
//
// Source and code (stages of IV.B by number; -: the paper says nothing, the choice is ours):
//     1 the first service process reads the root's buffer  | left out: receive buffers stand for it, and `kAtSource`
//        into its memory                                   |    reads at the root
//     2 all broadcast among themselves: small blocks down  | of nodes: relay/node_stage.cpp `binomial_ancestor`
//        a binomial tree                                   |
//     2 large ones by scatter and allgather                | `ask_between_nodes`; bcast_by_segments.cpp `scatter`,
//                                                          |    bcast_by_segments.cpp `allgather`
//     3 each writes the block to shared memory of its      | the receive buffer of the first rank that has arrived
//        node's leader                                     |    stands for that, one copy less:
//                                                          |    relay/replicas.cpp `fetch.locate(Fetch::State::remote)`
//     4 each sets a flag at its ranks                      | bcast_by_segments.cpp `complete`
//     5 ranks copy from shared memory in MPI_Wait          | service processes copy, as ranks may compute:
//                                                          |    relay/replicas.cpp `fetch.locate(Fetch::State::local)`
//     - several service processes on a node                | they share the segments: `serves`
//     - a service process without an arrived rank          | is skipped, so only the root waits for late ranks:
//                                                          |    relay/replicas.cpp `Replicas::ask_next`
//
// Picture (node_stage.hpp has those of the stage between nodes; 2 nodes of 2 service processes, root 0):
//
//     node 0                        node 1
//     0 ──▶ 1                           ┌──▶ 5
//     │───▶ 2     0 ════════════▶ 4 ────┼──▶ 6     the first rank of a service process gets it from the one that
//     └───▶ 3      wire                 └──▶ 7     has it, its other ranks from that first one
//
// Rounds: log2 n and one within the node; two and one for a large block.
// Per operation, group of p on n nodes, s service processes with members, at most k of them on a node:
//     announcements   the root's to s - 1, the others' to the root's service process (each 108 bytes)
//     moves           p - 1, at most `window_moves` in flight per service process. A large block has a move for each
//                     segment outside of the root's node: at least k (n - 1)
//     on the wire     the block n - 1 times. A small one goes log2 n times from the root's node, a large one at most
//                     once from each node. If the other ranks of a late rank's node have completed, it gets the block
//                     from another node. Per rank there is a release (52 bytes). Per move between service processes
//                     that does not begin at the root there are replica request (52), answer (76), done (44)
//     bounds          state O(p) at each rank's service process. The root stays until all ranks have the block
#include "engine/algorithms/bcast_by_segments.hpp"
#include "engine/relay/node_stage.hpp"

namespace outrigger::engine {
namespace {

BroadcastPlan plan_hierarchical(const Operation& operation, const LocalRank& rank, GroupRank root) {
  if (operation.membership().on_own_node(root)) return {1, kAtSource};
  const std::uint32_t segments = segments_between_nodes(operation, rank, root, true);
  if (segments == 1) return {1, ask_between_nodes};  // down the tree
  return {segments, ask_between_nodes, serves};
}

}  // namespace

Task bcast_hierarchical(Operation& operation, LocalRank& rank) {
  return bcast_by_segments(operation, rank, plan_hierarchical);
}

}  // namespace outrigger::engine
