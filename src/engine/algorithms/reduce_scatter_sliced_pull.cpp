// sliced_pull: reduce-scatter of blocks of any lengths, each reduced by the service process of the rank that it is for.
//
// Source: reduce_scatter_block_sliced_pull.cpp, which has Rabenseifner's.
//
// Source and code (ideas of the paper; -: ours):
//     reduce-scatter, then no allgather                    | `reduce_slices(operation, rank, kAtSource)`
//     - blocks of different lengths                        | their places come with the post, as its rank knows the
//                                                          |    counts and its service process does not:
//                                                          |    reduce_slices.cpp `posted().receive.extents`
//
// Picture (3 ranks; A, B, C: their contributions; nothing is for rank 1):
//
//     contributions       receive buffers
//     A  [A0A0|A2]        [A0A0+B0B0+C0C0]
//     B  [B0B0|B2]   ──▶  []
//     C  [C0C0|C2]        [A2+B2+C2]
//
// Order: that of group ranks, always: the same bits as by allreduce, wherever ranks are.
// Late arrivals: nothing of a block is known before the last rank has posted, and nothing is done before. A rank whose
// block is empty waits until the others have read its contribution.
//
// Per local rank, group of p, s service processes with members:
//     announcements   s - 1 (each 108 bytes)
//     reductions      one of each piece of its block, of p operands
//     on the wire     the block of each rank of another node, or where the order cannot be seen (integers, logicals,
//                     bytes) of each service process there, which reduces its ranks' before; a release (52 bytes) for
//                     every rank
//     bounds          state O(p) per local rank; at most `window_moves` pieces in flight per service process. Who has
//                     the longest block takes the longest
//
// Ranks whose counts differ are told so where the vectors differ in length; else each gets what it has asked for.
// Restarts: contributions stay until their ranks' blocks are all there; what is not marked is reduced again.
#include "engine/algorithms/reduce_slices.hpp"
#include "engine/registry.hpp"

namespace outrigger::engine {

Task reduce_scatter_sliced_pull(Operation& operation, LocalRank& rank) {
  return reduce_slices(operation, rank, kAtSource);
}

}  // namespace outrigger::engine
