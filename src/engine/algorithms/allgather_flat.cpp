// flat: allgather by the source's service process, which writes each of its ranks' blocks to every rank.
//
// Source: N. Sarkauskas et al., "Large-Message Nonblocking MPI_Iallgather and MPI_Ibcast Offload via BlueField-2 DPU",
// HiPC 2021, section V.A.
//
// Source and code (stages of V.A by number; -: the paper says nothing, the choice is ours):
//     1 a service process reads the send buffers of its    | left out: `alltoall_scatter_dest` moves a block straight
//        node's ranks into its own memory                  |    from its rank; the fabric stages where it has to
//     2 it writes them to their places in the receive      | alltoall_scatter_dest.cpp `operation.push`
//        buffer of every rank                              |
//     2 round-robin, from its own host on, against         | alltoall_scatter_dest.cpp `next_ready_peer`: from own rank
//        contention                                        |    + 1 on
//     3 it tells each of its ranks, which polls in         | alltoall_scatter_dest.cpp `complete`
//        MPI_Wait                                          |
//     - how a source learns that a destination has entered | alltoall_scatter_dest.cpp `announce_receive_blocks`
//     - how a destination learns that it has all blocks    | alltoall_scatter_dest.cpp `report_delivered`
//
// Picture (rank i writes the same block to place i of every receive buffer, round-robin from rank i + 1; a destination
// that has not entered is skipped and served when it arrives):
//
//     step        0   1   2   3            receive buffers, by source
//     rank 0  ->  1   2   3   0            rank 0  [0|1|2|3]
//     rank 1  ->  2   3   0   1            rank 1  [0|1|2|3]
//     ...                                  ...
//
// Per local rank, group of p, s service processes with members:
//     announcements   s - 1 (each 108 bytes, and 16 bytes a pair in the v-form): the place of my receive buffer
//     rounds          p - 1 pushes of the same block, and the own one, at most `window_moves` in flight
//     on the wire     the block once for every rank of another node (so best with one rank a node); per push a report
//                     (76 bytes) there and a release (52 bytes) back
//     bounds          state O(p) per local rank; at most one push of a block to a rank is in flight
#include "engine/core/operation.hpp"
#include "engine/registry.hpp"

namespace outrigger::engine {

// This is alltoall_scatter_dest.cpp with the same bytes for all destinations (the posted stride is 0).
Task allgather_flat(Operation& operation, LocalRank& rank) {
  return alltoall_scatter_dest(operation, rank);
}

}  // namespace outrigger::engine
