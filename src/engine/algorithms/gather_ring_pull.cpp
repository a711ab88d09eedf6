// ring_pull: gather in which the root's service process pulls every block.
//
// Source: none; alltoall_ring_pull.cpp in which every rank has a block for the root alone. Pairs without bytes exchange
// nothing and wait for nobody. A tree of service processes would need fewer messages at the root, and memory of its own
// for blocks that inner ranks pass on.
//
// Source and code (no paper; steps of alltoall_ring_pull.cpp):
//     destinations' service processes are told             | the root's alone, and by the root's all:
//                                                          |    core/announcer.cpp `Announcer::concerns`
//     all else                                             | `alltoall_ring_pull`
//
// Picture (5 ranks, root 1; 4 and 0 have announced, 2 and 3 are late):
//
//     root + 1 ->  2   3   4   0   1        ring order
//                  .   .   R   R   own      R: announced, so 4 is pulled next, then 0; 2 and 3 as soon as they arrive
//
// Group of p, s service processes with members:
//     announcements   of each rank one (108 bytes), to the root's service process; the root's to all others (in the
//                     v-form 16 bytes a rank more), which say of ranks that have ended badly that they have
//     rounds          p - 1 pulls and the own block, at most `window_moves` in flight; small blocks of other nodes set
//                     out with their announcements, as far as there is room for them at the root's
//     on the wire     each block once; a release (52 bytes) for each
//     bounds          state O(p) per local rank
//
// Late arrivals: the root waits for all that send it something; who sends waits for the root alone, until its block is
// in the root's buffer, but goes on at once where its block is in memory that is kept for it (staged, and small).
//
// Restarts: blocks stay until they are released, and what is not marked at the root is pulled again.
#include "engine/registry.hpp"

namespace outrigger::engine {

Task gather_ring_pull(Operation& operation, LocalRank& rank) {
  return alltoall_ring_pull(operation, rank);
}

}  // namespace outrigger::engine
