// chain: scan in which each rank's result is the result of the rank before it plus its own contribution, in pipelined
// pieces.
//
// Source: the linear pipeline, with which P. Sanders and J. L. Träff, "Parallel Prefix (Scan) Algorithms for MPI",
// EuroPVM/MPI 2006, compare their trees. It does the least work and moves the fewest bytes, but takes as many steps as
// there are ranks. Steps within a service process cost no message here.
//
// Source and code (ideas of the paper; -: ours):
//     each rank gets its predecessor's result, adds its    | prefix_chain.cpp `extend_previous`
//        own contribution, and passes that on              |
//     vectors go in pieces, one step behind each other     | reduce_slices.cpp `slice.fetch_all(route)`
//     the first rank has its own contribution              | prefix_chain.cpp `begin_chain`; the second reduces both at
//                                                          |    once, one step less
//     - the sender                                         | none: the next rank's service process reads,
//                                                          |    prefix_chain.cpp `ask_maker`
//     - restarts                                           | if the predecessor has nothing, reduces all
//                                                          |    contributions: prefix_chain.cpp `previous.at_source()`
//
// Picture (4 ranks on 2 nodes; A, B, C, D: their contributions, a pair of pieces each; ──▶ is in the node's memory,
// ══▶ crosses the network):
//
//     rank     0            1              2                3
//     piece 0  A0  ──▶  A0+B0  ══▶  A0+B0+C0  ──▶  A0+B0+C0+D0
//     piece 1  A1  ──▶  A1+B1  ══▶  A1+B1+C1  ──▶  A1+B1+C1+D1      one step behind
//
// The second rank reduces both contributions without waiting for the first rank's result: the same work, one step less.
//
// Order: that of group ranks, always: ((A + B) + C) + D, the same bits in any placement.
// Placement: each step between ranks of two nodes crosses the network, so a group that is dealt round-robin to the
// nodes crosses it p - 1 times.
// Late arrivals: a rank waits for all ranks before it. It also waits for later ranks until they have their results,
// which use its own.
//
// Per local rank, group of p, s service processes with members; a vector in pieces of about `segment_bytes`:
//     announcements   s - 1 (each 108 bytes; 16 bytes a rank more to a service process with ranks before and after it)
//     rounds          p + pieces - 2 steps until the last rank has all
//     reductions      one of each piece, of two operands. A contribution is read once in all (the first twice). A
//                     result is read once by the next rank
//     on the wire     the vector, if the rank before is on another node. Per piece from another service process there
//                     are replica request (52 bytes), answer (76), done (44). A release (52) for each rank before it
//                     that another service process serves
//     bounds          state O(p) per local rank; a coroutine for each piece, at most `window_moves` of them in flight
//                     per service process
//
// Restarts: contributions stay until all later ranks have their results. If the previous rank's service process has
// lost the result, the own one reduces all contributions in the same order. It does not write a receive buffer before
// all possible readers have answered (relay/quiescence).
#include "engine/algorithms/prefix_chain.hpp"
#include "engine/registry.hpp"

namespace outrigger::engine {

Task scan_chain(Operation& operation, LocalRank& rank) {
  return prefix_chain(operation, rank);
}

}  // namespace outrigger::engine
