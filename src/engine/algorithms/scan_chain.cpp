// chain: scan in which each rank's result is made of the result of the rank before it, in pieces that follow each
// other.
//
// Source: the linear pipeline, with which P. Sanders and J. L. Träff, "Parallel Prefix (Scan) Algorithms for MPI",
// EuroPVM/MPI 2006, compare their trees: of all schedules it does the least work and moves the least, at the price of
// as many steps as there are ranks. Steps within a service process cost no message here.
//
// Source and code (ideas of the paper; -: ours):
//     each rank gets its predecessor's result, adds its    | prefix_chain.cpp `extend_previous`
//        own contribution, and passes that on              |
//     vectors go in pieces, one step behind each other     | reduce_slices.cpp `slice.fetch_all(route)`
//     the first rank has its own contribution              | prefix_chain.cpp `begin_chain`; the second reduces both at
//                                                          |    once, one step less
//     - who sends                                          | nobody: the next rank's service process reads,
//                                                          |    prefix_chain.cpp `ask_maker`
//     - restarts                                           | who finds nothing at its predecessor reduces all
//                                                          |    contributions: prefix_chain.cpp `previous.at_source()`
//
// Picture (4 ranks on 2 nodes; A, B, C, D: their contributions, a pair of pieces each; ──▶ is in the node's memory,
// ══▶ crosses the network):
//
//     rank     0            1              2                3
//     piece 0  A0  ──▶  A0+B0  ══▶  A0+B0+C0  ──▶  A0+B0+C0+D0
//     piece 1  A1  ──▶  A1+B1  ══▶  A1+B1+C1  ──▶  A1+B1+C1+D1      one step behind
//
// The second rank's is made of both contributions, whatever the first has done: that is as much work, and one step
// less.
//
// Order: that of group ranks, always: ((A + B) + C) + D, the same bits wherever ranks are.
// Ranks that are not side by side on nodes: each step between ranks of two nodes crosses the network, whatever its
// direction; so a group dealt to the nodes by turns crosses it p - 1 times.
// Late arrivals: a rank waits for all before it, and for those after it until they have their results, as these are
// made of its own.
//
// Per local rank, group of p, s service processes with members; a vector in pieces of about `segment_bytes`:
//     announcements   s - 1 (each 108 bytes; 16 bytes a rank more to a service process with ranks before and after it)
//     rounds          p + pieces - 2 steps until the last rank has all
//     reductions      one of each piece, of two operands: a contribution is read once in all (the first twice), a
//     result
//                     once by the rank after it
//     on the wire     the vector where the rank before is on another node; per piece from another service process a
//                     replica request (52 bytes), answer (76), done (44); a release (52) for each rank before it that
//                     another service process serves
//     bounds          state O(p) per local rank; a coroutine for each piece, at most `window_moves` of them in flight
//                     per service process
//
// Restarts: contributions stay until all ranks after have their results. Who finds that the service process of the rank
// before it knows nothing reduces all contributions for itself, in the same order. A receive buffer from which others
// may still read is not written before these have been heard (relay/quiescence).
#include "engine/algorithms/prefix_chain.hpp"
#include "engine/registry.hpp"

namespace outrigger::engine {

Task scan_chain(Operation& operation, LocalRank& rank) {
  return prefix_chain(operation, rank);
}

}  // namespace outrigger::engine
