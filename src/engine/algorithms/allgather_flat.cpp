// flat: allgather by the source's service process, which writes each of its ranks' blocks to every rank.
//
// Source: N. Sarkauskas et al., "Large-Message Nonblocking MPI_Iallgather and MPI_Ibcast Offload via BlueField-2 DPU",
// HiPC 2021, section V.A. There the service process first reads its ranks' blocks into memory of its own and writes
// from that; here a block is moved straight from its rank, and the fabric stages where it has to (never between
// memories that the service process maps). Reading into staging once for all destinations is the price of private
// memory there, and is left to the fabric. The paper leaves open how a source learns that a destination has entered:
// announcements, reports and replay are ours, the same as for the sender-driven all-to-all.
//
// Picture (rank i writes one and the same block to place i of every destination's receive buffer, to own rank + 1
// first, by turns; a destination that has not entered is passed over and served when it arrives):
//
//     step        0   1   2   3            receive buffers, by source
//     rank 0  ->  1   2   3   0            rank 0  [0|1|2|3]
//     rank 1  ->  2   3   0   1            rank 1  [0|1|2|3]
//     ...                                  ...
//
// Per local rank, group of p, s service processes with members:
//     announcements   s - 1 (each 108 bytes, and 16 bytes a pair in the v-form): where my receive buffer is
//     rounds          p - 1 pushes of one and the same block, and the own one, at most `window_moves` in flight
//     on the wire     the block once for every rank of another node (so best with one rank a node); per push a report
//                     (76 bytes) there and a release (52 bytes) back
//     bounds          state O(p) per local rank; at most one push of a block to a rank is in flight, ever
#include "engine/core/operation.hpp"
#include "engine/registry.hpp"

namespace outrigger::engine {

// The sender-driven all-to-all, line by line, in which a rank's blocks for all destinations are the same bytes (the
// stride that is posted is 0): see alltoall_scatter_dest.cpp.
Task allgather_flat(Operation& operation, LocalRank& rank) {
  return alltoall_scatter_dest(operation, rank);
}

}  // namespace outrigger::engine
