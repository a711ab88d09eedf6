// sliced_pull: reduce in which the root's service process reads and reduces everything.
//
// Source: none; the root's side of allreduce_sliced_pull.cpp. A tree would take log2 p rounds, while here one service
// process reduces p operands. But a tree would need memory of inner ranks that MPI does not provide, and its bits would
// depend on the placement.
//
// Source and code (no paper; steps of allreduce_sliced_pull.cpp):
//     reduce-scatter: the owner of a slice reads it of all | the root owns all:
//        ranks                                             |    `reduce_slices(operation, rank, kAtSource)`
//     allgather: all read a slice at its owner             | left out: only `kAtSource`
//
// Picture (3 ranks, root 1; A, B, C: their contributions; the pieces are reduced in order):
//
//     contributions       the root's receive buffer
//     A  [A0|A1|A2]
//     B  [B0|B1|B2]  ──▶  [A0+B0+C0|A1+B1+C1|A2+B2+C2]
//     C  [C0|C1|C2]
//
// Order: that of group ranks, always: the same bits as allreduce in any placement.
// Late arrivals: only the root waits for others. The other ranks wait for the root, which reads when all have posted.
//
// Group of p, s service processes with members:
//     announcements   one of each rank (108 bytes), to the root's service process; the root's to all others, which
//                     report ranks that have failed, also to a restarted root
//     reductions      at the root one of each piece, of p operands
//     on the wire     each contribution once, or where the order does not matter one of each service process, which
//                     reduces its ranks' first; a release (52 bytes) to each service process
//     bounds          state O(p) per local rank; at most `window_moves` pieces in flight
//
// Restarts: contributions stay until the root has everything; pieces without a mark are reduced again.
#include "engine/algorithms/reduce_slices.hpp"
#include "engine/registry.hpp"
#include "engine/relay/segmented_block.hpp"

namespace outrigger::engine {

Task reduce_sliced_pull(Operation& operation, LocalRank& rank) {
  return reduce_slices(operation, rank, kAtSource);
}

}  // namespace outrigger::engine
