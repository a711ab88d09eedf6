// sliced_pull: reduce-scatter of equal blocks, each reduced by its rank's service process.
//
// Source: R. Rabenseifner, "Optimization of Collective Reduction Operations", ICCS 2004; see allreduce_sliced_pull.cpp.
//
// Source and code (ideas of the paper; -: ours):
//     reduce-scatter: ranks halve the vector and their     | one step instead: a rank's service process reads its block
//        distance, log2 p times                            |    of all ranks, reduce_slices.cpp `contributions(rank,`
//     allgather                                            | left out: `reduce_slices(operation, rank, kAtSource)`
//     - the order of operands                              | that of group ranks, always:
//                                                          |    reduce_slices.cpp `group_rank(i), piece`
//
// Picture (3 ranks; A, B, C: their contributions):
//
//     contributions       receive buffers
//     A  [A0|A1|A2]       [A0+B0+C0]
//     B  [B0|B1|B2]  ──▶  [A1+B1+C1]
//     C  [C0|C1|C2]       [A2+B2+C2]
//
// Order: that of group ranks, always: the same bits as allreduce in any placement.
// Late arrivals: a block needs all contributions, so nothing is reduced before the last rank has posted.
//
// Per local rank, group of p, s service processes with members:
//     announcements   s - 1 (each 108 bytes)
//     reductions      one of each piece of its block, of p operands
//     on the wire     the block of each rank of another node. Where the order does not matter (integers, logicals,
//                     bytes): one block of each service process there, which reduces its ranks' blocks first. A
//                     release (52 bytes) to every service process
//     bounds          state O(p) per local rank; at most `window_moves` pieces in flight per service process
//
// Restarts: contributions stay until their ranks' blocks are all placed; blocks without a mark are reduced again.
#include "engine/algorithms/reduce_slices.hpp"
#include "engine/registry.hpp"
#include "engine/relay/segmented_block.hpp"

namespace outrigger::engine {

Task reduce_scatter_block_sliced_pull(Operation& operation, LocalRank& rank) {
  return reduce_slices(operation, rank, kAtSource);
}

}  // namespace outrigger::engine
