// ring_pull: scatter in which each rank's service process pulls its rank's block from the root.
//
// Source: none; alltoall_ring_pull.cpp in which everybody expects a block of the root alone. Pairs without bytes
// exchange nothing and wait for nobody. A tree of service processes would send from the root's node no less, and need
// memory of its own for blocks that inner ranks pass on.
//
// Source and code (no paper; steps of alltoall_ring_pull.cpp):
//     destinations' service processes are told             | by the root's all, and the root's by all:
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
//                     others' one to the root's, which says of a root that has ended badly that it has
//     rounds          p - 1 pulls, one for each rank, at most `window_moves` in flight per service process; as much as
//                     there is room for at other nodes sets out with the announcement
//     on the wire     each block once; a release (52 bytes) for each
//     bounds          state O(p) at each rank's service process
//
// Late arrivals: nobody waits for anyone but the root, which waits until all have their blocks; it goes on at once
// where these are in memory that is kept for it (staged, and small).
//
// Restarts: blocks stay until they are released, and what is not marked at its rank is pulled again.
#include "engine/registry.hpp"

namespace outrigger::engine {

Task scatter_ring_pull(Operation& operation, LocalRank& rank) {
  return alltoall_ring_pull(operation, rank);
}

}  // namespace outrigger::engine
