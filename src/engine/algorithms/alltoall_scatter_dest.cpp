// scatter_dest: sender-driven all-to-all, destinations scattered.
//
// Source: M. Bayatpour et al., "Efficient MPI Offloading Designs on Modern BlueField Smart NICs" (BluesMPI), OFA
// workshop 2021.
//
// Source and code (by the titles of the slides; -: the slides say nothing, the choice is ours):
//     Offload framework: hosts give workers metadata, by   | core/operation.cpp `algorithm(*this, rank)`: a post starts
//        which these reach the hosts' memory               |    this coroutine
//     Alltoall design: a worker reads a chunk into its     | `operation.push`, one move; the fabric stages where it has
//        memory, and writes it from there to the remote    |    to
//        host                                              |
//     Alltoall (cont'd): scattered destinations            | `next_ready_peer`: own rank + 1 first
//     Alltoall (cont'd): chunks in a pipeline make staging | left to the fabric: `operation.push`
//        cheap                                             |
//     Offload framework: workers tell the hosts at the end | `filled_and_released`, `complete`
//     - how a worker learns that a destination has         | `announce_receive_blocks`
//        entered, and where its buffer is                  |
//     - how a destination learns that its block is there   | `report_delivered`; core/settlement.cpp `on_delivered`
//                                                          |    marks, counts and releases
//     - how many moves are in flight                       | `enter_window`
//
// Picture (destinations step by step, 4 ranks; no destination is the first of all):
//
//     step        0   1   2   3
//     rank 0  ->  1   2   3   0
//     rank 1  ->  2   3   0   1
//     rank 2  ->  3   0   1   2
//     rank 3  ->  0   1   2   3
//
// A destination that has not entered is skipped and served when it arrives.
//
// Per local rank, group of p, s service processes with members:
//     announcements   s - 1 (each 108 bytes, and 16 bytes a pair in the v-forms)
//     rounds          p - 1 pushes and the own block, at most `window_moves` in flight per service process
//     on the wire     each block once; per block a report (76 bytes) there and a release (52 bytes) back
//     bounds          state O(p) per local rank; at most one push of a block is in flight
#include "engine/core/operation.hpp"

namespace outrigger::engine {
namespace {

// Pushes one block of the local rank. Enters with a window slot held.
Task push(Operation& operation, LocalRank& rank, GroupRank destination, bool near) {
  const fabric::MoveOutcome outcome = co_await operation.push(rank, destination);
  operation.leave_window(rank, near);
  operation.report_delivered(rank, destination, outcome);  // its service process marks, counts and releases
}

}  // namespace

Task alltoall_scatter_dest(Operation& operation, LocalRank& rank) {
  operation.announce_receive_blocks(rank);  // my buffer may be written
  for (;;) {
    const std::optional<GroupRank> destination = co_await rank.next_ready_peer();  // own rank + 1 first
    if (!destination) break;                                                       // all blocks are on their way
    const bool near = operation.is_near(rank.blocks.push_to(*destination));
    co_await operation.enter_window(rank, near);
    rank.spawn(push(operation, rank, *destination, near));
  }
  co_await rank.filled_and_released();
  operation.complete(rank);
}

}  // namespace outrigger::engine
