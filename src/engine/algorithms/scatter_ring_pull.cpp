// ring_pull: scatter in which each rank's service process pulls its block from the root.
//
// Source: none; this is alltoall_ring_pull.cpp in which only the root has blocks. Pairs without bytes exchange nothing.
// A tree of service processes would not send less from the root's node, and would need memory for the blocks that inner
// ranks pass on.
//
// Source and code (no paper; steps of alltoall_ring_pull.cpp):
//     destinations' service processes are told             | all by the root, and only the root's by the others:
//                                                          |    core/announcer.cpp `Announcer::concerns`
//     all else                                             | `alltoall_ring_pull`
//
// Picture (5 ranks, root 1; 3 and 0 have posted, 2 and 4 are late):
//
//     root's blocks  [0|1|2|3|4]
//                     │ │   │         each is pulled by the service process of its rank, when that has posted
//                     ▼ ▼   ▼
//                     0 1 . 3 .
//
// Group of p, s service processes with members:
//     announcements   the root's one to each service process (108 bytes; in the v-form 16 bytes a rank more); the
//                     others' one to the root's, which reports a root that has failed
//     rounds          p - 1 pulls, one for each rank, at most `window_moves` in flight per service process; blocks
//                     for which other nodes have room are sent with the announcement
//     on the wire     each block once; a release (52 bytes) for each
//     bounds          state O(p) at each rank's service process
//
// Late arrivals: ranks wait only for the root. The root waits until all ranks have their blocks; it completes at once
// if they are small and staged in memory that outlives the send.
//
// Restarts: blocks stay until they are released; blocks without a mark at their rank are pulled again.
#include "engine/registry.hpp"

namespace outrigger::engine {

Task scatter_ring_pull(Operation& operation, LocalRank& rank) {
  return alltoall_ring_pull(operation, rank);
}

}  // namespace outrigger::engine
