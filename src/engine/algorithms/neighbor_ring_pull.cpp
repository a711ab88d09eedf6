// ring_pull: neighbor exchange in which each receiver's service process pulls the blocks of its sources.
//
// Source: none; this is alltoall_ring_pull.cpp in which most pairs have no bytes. Each rank names only its own
// neighbors. No rank knows all neighbors, so the algorithm decides nothing by them.
//
// Source and code (no paper; steps of alltoall_ring_pull.cpp):
//     destinations' service processes are told             | only those of neighbors:
//                                                          |    core/announcer.cpp `Announcer::concerns`
//     all else                                             | `alltoall_ring_pull`
//
// Picture (a row of 6 ranks, service processes A, B and C; 2 and 3 have posted):
//
//       A        B        C
//     0   1 -- 2 - 3 -- 4   5        2 tells A about its block for 1, 3 tells C about its block for 4;
//           R>   <>   <R             B matches the two here, A and C tell B as soon as 1 and 4 post
//
// A rank may be a neighbor several times (a periodic dimension of two ranks, a graph with parallel edges). The pair has
// one block then, which has all their blocks in the receiver's order. So marks, releases and replays are still per
// pair.
//
// Per local rank of degree d (distinct neighbors that it sends to or receives from), whose neighbors are served by n
// other service processes:
//     announcements   n, of 108 bytes and 16 for each rank there from the first neighbor to the last;
//                     none to others
//     rounds          as many pulls as there are sources with bytes, at most `window_moves` in flight per
//                     service process
//     on the wire     each block once; a release (52 bytes) for each between service processes
//     bounds          messages O(d); state O(p), as in every operation; in the rank's memory 24 bytes a neighbor
//
// Late arrivals: a rank waits only for neighbors with which it exchanges bytes.
//
// Restarts: blocks stay until they are released; blocks without a mark at the receiver are pulled again. Both sides of
// a pair are announced to each other, whatever the block's direction, so each is told if the other fails or restarts.
#include "engine/registry.hpp"

namespace outrigger::engine {

Task neighbor_ring_pull(Operation& operation, LocalRank& rank) {
  return alltoall_ring_pull(operation, rank);
}

}  // namespace outrigger::engine
