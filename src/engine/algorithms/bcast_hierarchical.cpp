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
#include "engine/core/operation.hpp"
#include "engine/relay/broadcast_shapes.hpp"
#include "engine/relay/node_stage.hpp"
#include "engine/relay/segmented_block.hpp"

namespace outrigger::engine {
namespace {

// Of this node's segments those that this service process is the server of, from the root, in order. Two of these run.
Task scatter(Operation& operation, SegmentedBlock& block) {
  const Membership& group = operation.membership();
  const std::uint32_t stride = segments_a_round(group);
  for (std::uint32_t own = own_segment(group, block.source(), 0); own < block.count(); own += stride) {
    if (block.is_fetched(own) || !serves(group, block.segment(own))) continue;
    block.fetch(own, kAtSource);
    co_await block.arrived(own);
  }
}

// The others of a round from their nodes' servers: after the own one, which these have read meanwhile.
Task allgather(Operation& operation, SegmentedBlock& block, std::uint32_t round) {
  const Membership& group = operation.membership();
  const std::uint32_t own = own_segment(group, block.source(), round);
  if (own < block.count() && serves(group, block.segment(own))) co_await block.arrived(own);
  fetch_round(group, block, round, ask_between_nodes);
}

}  // namespace

Task bcast_hierarchical(Operation& operation, LocalRank& rank) {
  const Membership& group = operation.membership();
  operation.announce_send_blocks(rank);  // the root: my block may be read; the others: I am here
  const std::optional<GroupRank> root = co_await rank.next_ready_peer();
  if (root) {  // not at the root, nor where nothing is sent
    const std::uint32_t segments = segments_between_nodes(operation, rank, *root, true);
    SegmentedBlock block(operation, rank, *root, segments);
    if (group.on_own_node(*root)) {
      block.fetch_all(kAtSource);
    } else if (segments == 1) {
      block.fetch_all(ask_between_nodes);  // down the tree
    } else {
      block.fetch_shared(ask_between_nodes);  // other ranks of this service process were first
      const std::uint32_t rounds = rounds_of(group, block);
      for (std::uint32_t round = 0; round < rounds; ++round) rank.spawn(allgather(operation, block, round));
      rank.spawn(scatter(operation, block));
      rank.spawn(scatter(operation, block));
    }
    co_await block.complete();
    const fabric::MoveOutcome outcome = block.outcome();
    operation.mark_delivered(rank, *root, outcome);
    operation.release(rank, *root, outcome);
    operation.count_filled(rank, *root, outcome);
  }
  co_await rank.filled_and_released();
  operation.complete(rank);
}

}  // namespace outrigger::engine
