// ring_pull: exchanges of neighbors in which the service process of each receiver pulls the blocks of its sources.
//
// Source: none; alltoall_ring_pull.cpp in which most pairs have no bytes. Neighbors are named by each rank, for itself:
// nobody knows all of them, and nothing is decided by them.
//
// Source and code (no paper; steps of alltoall_ring_pull.cpp):
//     destinations' service processes are told             | those of neighbors alone:
//                                                          |    core/announcer.cpp `Announcer::concerns`
//     all else                                             | `alltoall_ring_pull`
//
// Picture (a row of 6 ranks, service processes A, B and C; 2 and 3 have posted):
//
//       A        B        C
//     0   1 -- 2 - 3 -- 4   5        2 tells A of its block for 1, 3 tells C of its block for 4;
//           R>   <>   <R             B matches the two here, A and C tell B as soon as 1 and 4 post
//
// A rank may be a neighbor several times over (a periodic dimension of two ranks, a graph with parallel edges). What is
// handed over then is one block a pair, in which all come one after the other, in the order in which their receiver
// takes them: so marks, releases and what is replayed are of pairs, as ever.
//
// Per local rank of degree d (neighbors that it sends to or receives from, each once), whose neighbors are served by
// n other service processes:
//     announcements   n, of 108 bytes and 16 for each rank there from the first neighbor to the last;
//                     none to others
//     rounds          as many pulls as there are sources with bytes, at most `window_moves` in flight per
//                     service process
//     on the wire     each block once; a release (52 bytes) for each between service processes
//     bounds          messages O(d); state O(p), as of every operation; in the rank's memory 24 bytes a neighbor
//
// Late arrivals: a rank waits for those alone that it exchanges bytes with; one without neighbors for nobody.
//
// Restarts: blocks stay until they are released, and what is not marked at its receiver is pulled again. Both sides of
// a pair are told of the other, whichever way the block goes: so each hears of one that has ended badly or begun anew.
#include "engine/registry.hpp"

namespace outrigger::engine {

Task neighbor_ring_pull(Operation& operation, LocalRank& rank) {
  return alltoall_ring_pull(operation, rank);
}

}  // namespace outrigger::engine
