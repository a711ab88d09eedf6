// ring_pull: receiver-driven all-to-all.
//
// Source: R. Graham et al., "Optimizing Application Performance With BlueField: Accelerating Large-Message Blocking
// and Nonblocking Collective Operations", 2024, section III.D.1 (Ialltoallv).
//
// Source and code (bullets of III.D.1 by number; -: the paper says nothing, the choice is ours):
//     1 a host tells its service process that the call has | core/operation.cpp `algorithm(*this, rank)`: a post starts
//        begun, with group, rank, buffers and counts       |    this coroutine
//     2 each destination's service process is told that    | `announce_send_blocks`
//        data is ready, and where                          |
//     3 it queues that; a rank that has not entered yet is | core/matcher.cpp `keep(from,` until
//        served after it has                               |    core/matcher.cpp `Matcher::match`, then
//                                                          |    `next_ready_peer`
//     4 it reads from the source's memory straight into    | `operation.pull`
//        the destination's, as reads flood no destination  |
//     4 the number of reads in flight has a limit          | `enter_window`
//     5 the host is told when its transfers have ended     | `filled_and_released`, `complete`
//     - how many notifications                             | one for each pair of a rank and a service process:
//                                                          |    core/announcer.cpp `Announcer::announce_to`
//     - the first peer in the ring                         | own rank + 1:
//                                                          |    core/ready_set.hpp `start.value() + std::size_t{1}`
//     - when the source's buffer is free                   | `operation.release`, a message for each block
//     - small blocks                                       | sent with the announcement: `EagerSends::to_all`
//     - the state of a restarted service process           | `mark_block`: the marks show which blocks are placed
//
// Picture (rank 2 of 6 has posted; 4 and 5 have announced, 3 is late):
//
//     own + 1 ->  3   4   5   0   1   2      ring order
//                 .   R   R   .   .   own    R: announced, so 4 is pulled next, then 5; 3 as soon as it arrives
//
// Per local rank, group of p, s service processes with members:
//     announcements   s - 1 (each 108 bytes, and 16 bytes a pair in the v-forms)
//     rounds          p - 1 pulls and the own block, at most `window_moves` in flight per service process
//     on the wire     each block once, source to destination; one release (52 bytes) a block between services
//     bounds          state O(p) per local rank; no staging here: the fabric stages a block if necessary
#include "engine/core/operation.hpp"

namespace outrigger::engine {
namespace {

// Pulls one block into the local rank's buffer. Enters with a window slot held.
Task pull(Operation& operation, LocalRank& rank, GroupRank source, bool near) {
  const fabric::MoveOutcome outcome = co_await operation.pull(rank, source);
  operation.leave_window(rank, near);
  operation.mark_block(rank, source, outcome);
  operation.release(rank, source, outcome);
  operation.count_filled(rank, source, outcome);
}

}  // namespace

Task alltoall_ring_pull(Operation& operation, LocalRank& rank) {
  // the fabric sends at once as much as the peer has room for
  operation.announce_send_blocks(rank, EagerSends::to_all);
  for (;;) {
    const std::optional<GroupRank> source = co_await rank.next_ready_peer();  // the nearest that has arrived
    if (!source) break;                                                       // all blocks are on their way
    const bool near = operation.is_near(rank.blocks.pull_from(*source));
    co_await operation.enter_window(rank, near);
    rank.spawn(pull(operation, rank, *source, near));
  }
  co_await rank.filled_and_released();
  operation.complete(rank);
}

}  // namespace outrigger::engine
