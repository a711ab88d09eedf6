// hierarchical: allgather that spreads each block among the nodes like a broadcast, and then within them.
//
// Source: N. Sarkauskas et al., "Large-Message Nonblocking MPI_Iallgather and MPI_Ibcast Offload via BlueField-2 DPU",
// HiPC 2021, section V.B.
//
// Source and code (stages of V.B by number; -: the paper says nothing, the choice is ours):
//     1 each service process reads the send buffers of its | left out: `fetch_all` moves a block straight from its rank
//        node's ranks                                      |
//     2 it writes them to the shared memory of every       | the receive buffer of the first rank that has arrived
//        node's leader                                     |    stands for that memory: `receive_segments`
//     2 each source's block goes to every node from its    | goes the way of a broadcast: `ask_between_nodes`
//        own node                                          |
//     3 it tells each of its ranks                         | allgather_by_nodes.cpp `complete`
//     4 ranks copy from shared memory in MPI_Wait          | service processes copy, as ranks may compute: `fetch_all`
//                                                          |    for other nodes' blocks,
//                                                          |    allgather_by_nodes.cpp `copy_within_node`
//     - the order of the blocks                            | ring order: allgather_by_nodes.cpp `next_ready_peer`
//     - several service processes on a node                | share blocks and segments round-robin:
//                                                          |    relay/node_stage.cpp `server(`
//     - a rank that is late                                | is skipped: relay/replicas.cpp `Replicas::ask_next`
//     - when a source is free                              | `operation.release`; of the own node's
//                                                          |    allgather_by_nodes.cpp `release_own_node`
//
// With a broadcast's routes, a node with a few large blocks (allgatherv) sends each once or log2 n times, not n - 1
// times. With equal blocks both ways load all nodes alike.
//
// Picture (4 nodes; a small block of node 0 and a large one of node 1; general pictures are in node_stage.hpp):
//
//     0 ──▶ 1 ┄▶ its other ranks           1 ──A──▶ 2 ┄▶      B, C from 3, 0
//     │───▶ 2 ┄▶                           │──B──▶ 3 ┄▶      A, C from 2, 0
//     │     └──▶ 3 ┄▶                      └──C──▶ 0 ┄▶      A, B from 2, 3
//
// Rounds: each rank takes the blocks in ring order from its own number on, as they are announced. A small block takes
// log2 n rounds between nodes and a large one takes two; both take one more within the node.
// Per local rank, group of p on n nodes, s service processes with members, at most k of them on a node:
//     announcements   s - 1 (each 108 bytes)
//     moves           p - 1 and the own block, at most `window_moves` in flight per service process. Large blocks from
//                     other nodes have k (n - 1) times as many
//     on the wire     a block n - 1 times in all, whatever the mapping of ranks to nodes. A small one goes log2 n times
//                     from its source's node, a large one once. A release (52 bytes) for every rank. Replica
//                     request (52), answer (76), done (44) for every move between service processes that does not
//                     begin at the source
//     bounds          state O(p) per local rank; a coroutine for each block on its way, and for each of its segments.
//                     A rank releases the sources of its own node when it has all blocks, so no rank completes before
//                     the others of its node have read its block
#include "engine/algorithms/allgather_by_nodes.hpp"
#include "engine/relay/node_stage.hpp"
#include "engine/relay/segmented_block.hpp"

namespace outrigger::engine {
namespace {

// Gets the block of a rank of another node.
Task receive_segments(Operation& operation, LocalRank& rank, GroupRank source) {
  const std::uint32_t segments = segments_between_nodes(operation, rank, source, false);
  SegmentedBlock block(operation, rank, source, segments);
  block.fetch_all(ask_between_nodes);
  co_await block.complete();
  const fabric::MoveOutcome outcome = block.outcome();
  operation.mark_block(rank, source, outcome);
  operation.release(rank, source, outcome);
  operation.count_filled(rank, source, outcome);
}

}  // namespace

Task allgather_hierarchical(Operation& operation, LocalRank& rank) {
  return allgather_by_nodes(operation, rank, receive_segments, EagerSends::no);
}

}  // namespace outrigger::engine
