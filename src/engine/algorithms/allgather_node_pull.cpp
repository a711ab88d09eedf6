// node_pull: allgather in which each node pulls every block once and passes it on inside.
//
// Source: R. Graham et al., "Optimizing Application Performance With BlueField: Accelerating Large-Message Blocking
// and Nonblocking Collective Operations", 2024, section III.D.2 (Allgather). How its text maps to this file:
//     the source notifies one service process of every node    each service process with members hears of every block
//                                                              (as in the all-to-alls); one of a node, the block's
//                                                              *home*, answers for it: block i's is the (i mod k)-th
//     whichever local rank has arrived receives the block      the home's first rank that has arrived pulls it
//     one that cannot serve it passes the notification on      the first sibling that asks the home is told to get it,
//     to its siblings, in a ring                               and those that ask later are sent there: the same
//                                                              passing on, started by the one who is ready instead of
//                                                              by the one who is not
//     a list that the siblings share keeps what none of        such a block waits at each of them, as announcements do
//     them can serve
//     the other ranks of the node are told and copy it         the service processes copy, not the ranks, which may be
//                                                              computing
// So there is no ring here. A rank that contributes nothing may be done before late ones of its node have come: those
// get their blocks from the sources again.
//
// A block for a node with a single rank sets out with its announcement: nobody else there could be the first to ask.
//
// Picture (2 nodes of 2 service processes, 8 ranks; the block of rank 0; 5 is late):
//
//     node 0                 node 1
//     0 ──▶ 1                    ┌──▶ 5    when it arrives
//     │───▶ 2     0 ════▶ 4 ─────┼──▶ 6
//     └───▶ 3      wire (home)   └──▶ 7
//
// Rounds: each rank takes the blocks in ring order from its own number on, as they are announced.
// Per local rank, group of p on n nodes, s service processes with members, k of them on this node:
//     announcements   s - 1 (each 108 bytes)
//     moves           p - 1 and the own block, at most `window_moves` in flight per service process
//     on the wire     a block n - 1 times in all, whatever the mapping of ranks to nodes; a release (52 bytes) for
//                     every rank
//     in the node     for each block and sibling: replica request (52 bytes), answer (76), done (44)
//     bounds          state O(p) per local rank, and a coroutine for each block on its way. A rank releases the sources
//                     of its own node when it has all blocks, so nobody is done before the others of its node have
//                     read what they want from it
#include "engine/algorithms/allgather_by_nodes.hpp"
#include "engine/relay/replicas.hpp"

namespace outrigger::engine {
namespace {

// The home of a block on this node; it gets the block from the source.
std::optional<SpId> ask_home(const Membership& group, const Segment& block, std::uint32_t hop) {
  const std::vector<SpId>& siblings = group.services_of_node();
  if (hop != 0) return std::nullopt;
  return siblings[block.source.value() % siblings.size()];
}

// The block of a rank of another node.
Task receive(Operation& operation, LocalRank& rank, GroupRank source) {
  Segment whole;
  whole.source = source;
  whole.bytes = rank.blocks.pull_bytes(source);
  Fetch fetch(operation.replicas(), rank, whole, ask_home);
  co_await fetch.located();  // at a rank of this node, or at its source
  co_await operation.enter_window(rank);
  fabric::MoveOutcome outcome;
  if (fetch.at_source()) {
    outcome = co_await operation.pull(rank, source);  // some of it may be here already
  } else {
    const Block from = fetch.from();
    const Block to = fetch.to();
    outcome = co_await operation.move(from, to);
  }
  operation.leave_window(rank);
  operation.mark_delivered(rank, source, outcome);
  operation.release(rank, source, outcome);
  fetch.moved(outcome);  // the others of this node may read it here, and the rank stays for those that wait for it
  operation.count_filled(rank, source, outcome);
}

}  // namespace

Task allgather_node_pull(Operation& operation, LocalRank& rank) {
  return allgather_by_nodes(operation, rank, receive, EagerSends::to_lone_ranks);
}

}  // namespace outrigger::engine
