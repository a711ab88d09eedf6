// node_pull: allgather in which each node pulls every block once and spreads it inside.
//
// Source: R. Graham et al., "Optimizing Application Performance With BlueField: Accelerating Large-Message Blocking
// and Nonblocking Collective Operations", 2024, section III.D.2 (Allgather).
//
// Source and code (bullets of III.D.2 by number; -: the paper says nothing, the choice is ours):
//     1 a host tells its service process that the call has | core/operation.cpp `algorithm(*this, rank)`: a post starts
//        begun, with group, rank, buffers and counts       |    this coroutine
//     2 one service process of every other node is told    | each with members is, as in the all-to-alls:
//        that data is ready, and where                     |    allgather_by_nodes.cpp `announce_send_blocks`
//     3 the one that was told gets the block if it knows   | one of a node is responsible for the block, its *home*:
//        the operation                                     |    `ask_home`. Its first rank that asks reads at the
//                                                          |    source: `at_source`
//     3 else it passes the notification on to its          | the first sibling that asks is told to get the block,
//        siblings, in a ring, until one is ready           |    later ones are sent there:
//                                                          |    relay/replicas.cpp `Replicas::forward`
//     3 a list that siblings share keeps it if none is     | each keeps the announcement: core/matcher.cpp `keep(from,`
//        ready                                             |
//     4 it reads from the source straight into a local     | `operation.pull`
//        rank's buffer                                     |
//     4 the number of reads in flight has a limit          | `enter_window`
//     5 the other local ranks are told, and copy it        | service processes copy, as ranks may compute:
//        themselves                                        |    `operation.move`
//     6 the host is told when its transfers have ended     | allgather_by_nodes.cpp `filled_and_released`,
//                                                          |    allgather_by_nodes.cpp `complete`
//     - a node with a single rank                          | its block is sent with the announcement, as no other rank
//                                                          |    could ask first: `EagerSends::to_lone_ranks`
//     - when a source is free                              | `operation.release`; of the own node's
//                                                          |    allgather_by_nodes.cpp `release_own_node`
//
// A rank that contributes nothing may complete before late ranks of its node arrive. They get their blocks from the
// sources.
//
// Picture (2 nodes of 2 service processes, 8 ranks; the block of rank 0; 5 is late):
//
//     node 0                 node 1
//     0 ──▶ 1                    ┌──▶ 5    when it arrives
//     │───▶ 2     0 ════▶ 4 ─────┼──▶ 6
//     └───▶ 3      wire (home)   └──▶ 7
//
// Rounds: each rank takes the blocks in ring order from its own number on: the nearest that is announced.
// Per local rank, group of p on n nodes, s service processes with members, k of them on this node:
//     announcements   s - 1 (each 108 bytes)
//     moves           p - 1 and the own block, at most `window_moves` in flight per service process
//     on the wire     a block n - 1 times in all, whatever the mapping of ranks to nodes. A release (52 bytes) for
//                     every rank
//     in the node     replica request (52 bytes), answer (76), done (44) for each block and sibling
//     bounds          state O(p) per local rank, and a coroutine for each block on its way. A rank releases the sources
//                     of its own node when it has all blocks, so no rank completes before the others of its node have
//                     read its block
#include "engine/algorithms/allgather_by_nodes.hpp"
#include "engine/relay/replicas.hpp"

namespace outrigger::engine {
namespace {

// The home of a block on this node reads the block at the source.
std::optional<SpId> ask_home(const Membership& group, const Segment& block, std::uint32_t hop) {
  const std::vector<SpId>& siblings = group.services_of_node();
  if (hop != 0) return std::nullopt;
  return siblings[block.source.value() % siblings.size()];
}

// Gets the block of a rank of another node.
Task receive_whole(Operation& operation, LocalRank& rank, GroupRank source) {
  Segment whole;
  whole.source = source;
  whole.bytes = rank.blocks.pull_bytes(source);
  Fetch fetch(operation.replicas(), rank, whole, ask_home);
  co_await fetch.located();  // at a rank of this node, or at its source
  const bool near = operation.is_near(fetch.from());
  co_await operation.enter_window(rank, near);
  fabric::MoveOutcome outcome;
  if (fetch.at_source()) {
    outcome = co_await operation.pull(rank, source);  // some of it may have been sent eagerly
  } else {
    const Block from = fetch.from();
    const Block to = fetch.to();
    outcome = co_await operation.move(from, to);
  }
  operation.leave_window(rank, near);
  operation.mark_block(rank, source, outcome);
  operation.release(rank, source, outcome);
  fetch.moved(outcome);  // other ranks of this node may read it here; this rank stays until they have
  operation.count_filled(rank, source, outcome);
}

}  // namespace

Task allgather_node_pull(Operation& operation, LocalRank& rank) {
  return allgather_by_nodes(operation, rank, receive_whole, EagerSends::to_lone_ranks);
}

}  // namespace outrigger::engine
