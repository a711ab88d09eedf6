// ring_pull: gather in which the root's service process pulls every block.
//
// Source: none; this is alltoall_ring_pull.cpp in which every rank has a block only for the root. Pairs without bytes
// exchange nothing. A tree of service processes would need fewer messages at the root, but memory for the blocks that
// inner ranks pass on.
//
// Source and code (no paper; steps of alltoall_ring_pull.cpp):
//     destinations' service processes are told             | only the root's, and all by the root:
//                                                          |    core/announcer.cpp `Announcer::concerns`
//     all else                                             | `alltoall_ring_pull`
//
// Picture (5 ranks, root 1; 4 and 0 have announced, 2 and 3 are late):
//
//     root + 1 ->  2   3   4   0   1        ring order
//                  .   .   R   R   own      R: announced, so 4 is pulled next, then 0; 2 and 3 as soon as they arrive
//
// Group of p, s service processes with members:
//     announcements   one of each rank (108 bytes), to the root's service process; the root's to all others (in the
//                     v-form 16 bytes a rank more), which report ranks that have failed
//     rounds          p - 1 pulls and the own block, at most `window_moves` in flight; small blocks of other nodes are
//                     sent with their announcements, as far as the root's service process has room for them
//     on the wire     each block once; a release (52 bytes) for each
//     bounds          state O(p) per local rank
//
// Late arrivals: the root waits for all ranks that send bytes. A sender waits for the root alone, until its block is in
// the root's buffer. It completes at once if its block is small and staged in memory that outlives the send.
//
// Restarts: blocks stay until they are released; blocks without a mark at the root are pulled again.
#include "engine/registry.hpp"

namespace outrigger::engine {

Task gather_ring_pull(Operation& operation, LocalRank& rank) {
  return alltoall_ring_pull(operation, rank);
}

}  // namespace outrigger::engine
