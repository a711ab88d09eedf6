// sliced_pull: reduce-scatter of blocks of any lengths, each reduced by its rank's service process.
//
// Source: reduce_scatter_block_sliced_pull.cpp, which is based on Rabenseifner's.
//
// Source and code (ideas of the paper; -: ours):
//     reduce-scatter, then no allgather                    | `reduce_slices(operation, rank, kAtSource)`
//     - blocks of different lengths                        | their places come with the post, as its rank knows the
//                                                          |    counts and its service process does not:
//                                                          |    reduce_slices.cpp `posted().receive.extents`
//
// Picture (3 ranks; A, B, C: their contributions; rank 1's block is empty):
//
//     contributions       receive buffers
//     A  [A0A0|A2]        [A0A0+B0B0+C0C0]
//     B  [B0B0|B2]   ──▶  []
//     C  [C0C0|C2]        [A2+B2+C2]
//
// Order: that of group ranks, always: the same bits as allreduce in any placement.
// Late arrivals: a block needs all contributions, so nothing is reduced before the last rank has posted. A rank with an
// empty block waits until the others have read its contribution.
//
// Per local rank, group of p, s service processes with members:
//     announcements   s - 1 (each 108 bytes)
//     reductions      one of each piece of its block, of p operands
//     on the wire     the block of each rank of another node. Where the order does not matter (integers, logicals,
//                     bytes): one block of each service process there, which reduces its ranks' blocks first. A
//                     release (52 bytes) to every service process
//     bounds          state O(p) per local rank; at most `window_moves` pieces in flight per service process. The
//                     longest block determines the time
//
// Ranks whose vectors differ in length get an error; other differences in counts are not detected.
// Restarts: contributions stay until their ranks' blocks are all placed; blocks without a mark are reduced again.
#include "engine/algorithms/reduce_slices.hpp"
#include "engine/registry.hpp"

namespace outrigger::engine {

Task reduce_scatter_sliced_pull(Operation& operation, LocalRank& rank) {
  return reduce_slices(operation, rank, kAtSource);
}

}  // namespace outrigger::engine
