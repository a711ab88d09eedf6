// sliced_pull: reduce in which the root's service process reads and reduces everything.
//
// Source: none; the root's side of allreduce_sliced_pull.cpp. A tree would take log2 p rounds instead of one service
// process's reduction of p operands. It would need memory of inner ranks that MPI does not give them, and its bits
// would depend on the placement.
//
// Source and code (no paper; steps of allreduce_sliced_pull.cpp):
//     reduce-scatter: the owner of a slice reads it of all | the root owns all:
//        ranks                                             |    `reduce_slices(operation, rank, kAtSource)`
//     allgather: all read a slice at its owner             | left out: nothing but `kAtSource`
//
// Picture (3 ranks, root 1; A, B, C: their contributions; its pieces, one after the other):
//
//     contributions       the root's receive buffer
//     A  [A0|A1|A2]
//     B  [B0|B1|B2]  ──▶  [A0+B0+C0|A1+B1+C1|A2+B2+C2]
//     C  [C0|C1|C2]
//
// Order: that of group ranks, always: the same bits as by allreduce, wherever ranks are.
// Late arrivals: only the root waits for others; who contributes waits for the root, which reads when all have come.
//
// Group of p, s service processes with members:
//     announcements   of each rank one (108 bytes), to the root's service process; the root's to all, whose service
//                     processes say of ranks that have ended badly that they have, also to one that has been restarted
//     reductions      at the root one of each piece, of p operands
//     on the wire     each contribution once, or where the order cannot be seen one of each service process, which
//                     reduces its ranks' before; a release (52 bytes) for each
//     bounds          state O(p) per local rank; at most `window_moves` pieces in flight
//
// Restarts: contributions stay until the root has everything; what is not marked is reduced again.
#include "engine/algorithms/reduce_slices.hpp"
#include "engine/registry.hpp"
#include "engine/relay/segmented_block.hpp"

namespace outrigger::engine {

Task reduce_sliced_pull(Operation& operation, LocalRank& rank) {
  return reduce_slices(operation, rank, kAtSource);
}

}  // namespace outrigger::engine
