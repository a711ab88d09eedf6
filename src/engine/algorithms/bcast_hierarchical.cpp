// hierarchical: broadcast among nodes, to each of which the block comes once, and then within them.
//
// Source: N. Sarkauskas et al., "Large-Message Nonblocking MPI_Iallgather and MPI_Ibcast Offload via BlueField-2 DPU",
// HiPC 2021, section IV.B: the service processes broadcast the block among themselves (binomial for small,
// scatter-allgather for large messages), write it to shared memory of one rank a node, and the ranks copy it out of
// there when they wait.
// Ours: a rank's own receive buffer stands for the shared memory, so the bytes are moved once less and nothing is left
// to do in the wait; the service processes copy within the node, not the ranks, which may be computing. Where a node
// has several service processes they share the segments of a large block. Whoever is asked and has no rank in the
// operation yet is passed over, as in `flat`: those below ask further up, at last the root, so nobody but the root
// waits for late ranks. `flat` differs where nodes have several service processes: its tree has a place for each, so
// the block may come to a node several times.
//
// Picture (node_stage.hpp has those of the stage between nodes; 2 nodes of 2 service processes, root 0):
//
//     node 0                        node 1
//     0 ──▶ 1                           ┌──▶ 5
//     │───▶ 2     0 ════════════▶ 4 ────┼──▶ 6     the first rank of a service process gets it from the one that
//     └───▶ 3      wire                 └──▶ 7     has it, its other ranks from that first one
//
// Rounds: log2 n and one within the node; of a large block two and one. Per operation, group of p on n nodes, s service
// processes with members, k of them on the node that has most:
//     announcements   the root's to s - 1, the others' to the root's service process (each 108 bytes)
//     moves           p - 1, at most `window_moves` in flight per service process; of a large block, outside of the
//                     root's node, as many times as it has segments: at least k (n - 1)
//     on the wire     the block n - 1 times; small: log2 n of them from the root's node; large: at most once from each
//                     node. A late rank whose node's others have completed gets it from another node once more. Per
//                     rank a release (52 bytes); per move between service processes that does not begin at the root:
//                     replica request (52), answer (76), done (44)
//     bounds          state O(p) at each rank's service process. The root stays until all have the block
#include "engine/algorithms/bcast_by_segments.hpp"
#include "engine/relay/node_stage.hpp"

namespace outrigger::engine {
namespace {

BroadcastPlan plan(const Operation& operation, const LocalRank& rank, GroupRank root) {
  if (operation.membership().on_own_node(root)) return {1, kAtSource};
  const std::uint32_t segments = segments_between_nodes(operation, rank, root, true);
  if (segments == 1) return {1, ask_between_nodes};  // down the tree
  return {segments, ask_between_nodes, serves};
}

}  // namespace

Task bcast_hierarchical(Operation& operation, LocalRank& rank) {
  return bcast_by_segments(operation, rank, plan);
}

}  // namespace outrigger::engine
