// sliced_pull: allreduce in which every rank owns a slice of the result: reduce-scatter, then allgather, both by pulls.
//
// Source: R. Rabenseifner, "Optimization of Collective Reduction Operations", ICCS 2004.
//
// Source and code (ideas of the paper; -: ours):
//     a long vector is best reduced by a reduce-scatter,   | reduce_slices.cpp `reduce_piece`, out of all contributions
//        then an allgather                                 |    or from its owner
//     reduce-scatter: ranks halve the vector and their     | one step instead: the owner of a slice reads it of all
//        distance, log2 p times                            |    ranks, reduce_slices.cpp `contributions(rank,`
//     allgather: they double it again, log2 p times        | one step instead: all read a slice at its owner,
//                                                          |    `ask_owner`
//     - who owns which slice                               | core/slices.cpp `cut_into_slices`
//     - the order of operands                              | that of group ranks, always:
//                                                          |    reduce_slices.cpp `group_rank(i), piece`
//     - short slices                                       | sent before they are asked for: `EagerSends::slices`
//     - who is sent a slice                                | those who would ask, if it is in one piece:
//                                                          |    reduce_slices.cpp `offer_own_slice`
//     - which slices have been read                        | the owner is told with the releases:
//                                                          |    reduce_slices.cpp `tell_of_moved`
//     - restarts                                           | contributions stay: reduce_slices.cpp `end_contributions`;
//                                                          |    a rank waits for its readers:
//                                                          |    reduce_slices.cpp `quiescence.quiet()`
//
// Picture (3 ranks; A, B, C: their contributions; the columns are slices, rank i owns the i-th):
//
//     contributions       reduced by the owner        passed on
//     A  [A0|A1|A2]       [A0+B0+C0|    |    ]       [0|1|2]
//     B  [B0|B1|B2]  ──▶  [    |A1+B1+C1|    ]  ──▶  [0|1|2]
//     C  [C0|C1|C2]       [    |    |A2+B2+C2]       [0|1|2]
//
// Order: always that of group ranks, ((0 + 1) + 2) + ..., whatever arrives first. The same contributions give the same
// bits, in any placement.
// Late arrivals: the result needs all contributions, so nothing is reduced before the last rank has posted. Short
// slices (up to 128 KiB and in one piece) are sent before they are requested, where processors copy and as far as there
// is room (core/announcer, relay/replicas). Contributions set out with the announcement, unless a service process
// reduces those of its ranks first or, above 4 KiB, owns several slices. An owner sends the slice with its answer,
// and answers without a request. So short vectors cross the network twice: to the owners, and back.
//
// Per local rank, group of p on n nodes, s service processes with members; a slice in pieces of about `segment_bytes`:
//     announcements   s - 1 (each 108 bytes)
//     reductions      one of each piece of the own slice, in which p operands are read and one result is written; a
//                     contribution is read once in all
//     moves           of the p - 1 other slices' pieces, at most `window_moves` of both in flight per service process
//     on the wire     a slice of each rank of another node, 1/p of the vector each. Where the order does not matter
//                     (integers, logicals, bytes): one slice of each service process there, which reduces its ranks'
//                     slices first. Other nodes' slices come once per node. With one service process a node that is
//                     twice (n - 1)/n of the vector to each node, the minimum. Per piece from another service
//                     process a replica request (52 bytes; none for a slice in one piece), answer (76), done (44); a
//                     release (52) for every rank
//     bounds          state O(p) per local rank, 16 bytes of it per slice; a coroutine for each piece. Slices have
//                     `split_bytes` or more, so short vectors have few owners
//
// Restarts: a contribution stays until all ranks have the whole result. So a slice without a mark can be reduced again,
// with the same bits. Other ranks may still read an earlier incarnation's bytes in the receive buffer, so the service
// process waits for them first (relay/quiescence). If the owner's service process has lost the slice, a rank's own
// service process reduces it.
#include <vector>

#include "engine/algorithms/reduce_slices.hpp"
#include "engine/registry.hpp"

namespace outrigger::engine {
namespace {

// One service process of this node gets a slice of another node from the owner's; the others get it from that one. They
// take slices round-robin.
std::optional<SpId> ask_owner(const Membership& group, const Segment& piece, std::uint32_t hop) {
  const SpId owner = group.service_of(piece.source);
  if (group.on_own_node(piece.source)) return hop == 0 ? std::optional(owner) : std::nullopt;
  const std::vector<SpId>& siblings = group.services_of_node();
  if (hop == 0) return siblings[piece.source.value() % siblings.size()];
  return hop == 1 ? std::optional(owner) : std::nullopt;
}

}  // namespace

Task allreduce_sliced_pull(Operation& operation, LocalRank& rank) {
  return reduce_slices(operation, rank, ask_owner, reduce_piece, EagerSends::slices);
}

}  // namespace outrigger::engine
