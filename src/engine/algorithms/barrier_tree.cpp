// tree: barrier that goes up a tree of ranks and down again.
//
// Source: J. Mellor-Crummey and M. Scott, "Algorithms for Scalable Synchronization on Shared-Memory Multiprocessors",
// 1991, section 3. A dissemination barrier would take half the rounds, and log2 n times the messages.
//
// Source and code (ideas of the paper; -: ours):
//     arrival: a process waits for its children in the     | `next_ready_peer` until there is no more
//        tree                                              |
//     arrival: then it tells its parent                    | `announce_above`
//     wakeup: it waits for its parent                      | `released(rank)`
//     wakeup: then it wakes its children                   | `release_source`
//     - the shape of the tree                              | ranks of a service process, those of a node, binomial
//                                                          |    between nodes: core/barrier_shape.cpp `service_above`
//     - the form of an arrival                             | a block of one byte that is never read, so restarts need
//                                                          |    nothing new: core/barrier_shape.cpp `set_barrier_pairs`
//
// Picture (2 nodes of 2 service processes, 8 ranks; `^` announces, `v` releases):
//
//     node 0                         node 1
//     0 ◀─^── 1                      4 ◀─^── 5       ranks of a service process meet in it, without messages
//     ▲ ◀─^── 2 ◀─^── 3              ▲ ◀─^── 6 ◀─^── 7
//     └───────────────── ^ ──────────┘               then v, the same way back
//
// Nothing moves: a rank's block for its parent is one byte that is never read. So the engine's rules for blocks also
// hold for barriers: a restarted service process announces again, and the others tell it which ranks have completed.
//
// Group of p on n nodes, s service processes with members:
//     rounds          2 log2 n between nodes, and two within a node
//     announcements   2 (s - 1), 108 bytes each: to the parent when all below have entered; and at once to those below,
//                     whose service processes report ranks that have ended
//     on the wire     these, and s - 1 releases (52 bytes)
//     bounds          state O(p) at the first rank of each service process
//
// Late arrivals: all ranks wait for the last one, as a barrier must. A rank that is told that one below will not arrive
// tells all.
#include <vector>

#include "engine/core/operation.hpp"
#include "engine/core/settlement.hpp"

namespace outrigger::engine {
namespace {

// Awaited: the rank above has released this one.
Until<PairTable> released(LocalRank& rank) {
  return Until(rank.pairs, &PairTable::all_released, rank.released);
}

}  // namespace

Task barrier_tree(Operation& operation, LocalRank& rank) {
  operation.announce_send_blocks(rank);  // to the ranks below; above when they have arrived
  std::vector<GroupRank> below;
  for (;;) {
    const std::optional<GroupRank> entered = co_await rank.next_ready_peer();
    if (!entered) break;
    below.push_back(*entered);
  }
  if (rank.record.status == CompletionStatus::peer_lost) {
    fail_for_all(operation, rank);  // not all will arrive
  } else {
    operation.announcer.announce_above(rank);
  }
  co_await released(rank);  // all have arrived
  for (const GroupRank other : below) {
    release_source(operation, rank, other, rank.record.status);
    rank.pairs.end_move();
    rank.fill(other);
  }
  co_await rank.filled_and_released();
  operation.complete(rank);
}

}  // namespace outrigger::engine
