// scatter_dest: sender-driven all-to-all, destinations scattered.
//
// Source: M. Bayatpour et al., "Efficient MPI Offloading Designs on Modern BlueField Smart NICs" (BluesMPI), OFA
// workshop 2021, "Scatter Destination Algorithm". There the worker stages each block in chunks; here a block is one
// fabric move, and the fabric stages where it has to. The slides leave open how a source learns that a destination
// has entered; the announcement of receive buffers, the report and the replay are ours.
//
// Picture (who is written to, step by step, 4 ranks; no destination is everybody's first):
//
//     step        0   1   2   3
//     rank 0  ->  1   2   3   0
//     rank 1  ->  2   3   0   1
//     rank 2  ->  3   0   1   2
//     rank 3  ->  0   1   2   3
//
// A destination that has not entered is passed over and served when it arrives.
//
// Per local rank, group of p, s service processes with members:
//     announcements   s - 1 (each 108 bytes, and 16 bytes a pair in the v-forms)
//     rounds          p - 1 pushes and the own block, at most `window_moves` in flight per service process
//     on the wire     each block once; per block a report (76 bytes) there and a release (52 bytes) back
//     bounds          state O(p) per local rank; at most one push of a block is in flight, ever
#include "engine/core/operation.hpp"

namespace outrigger::engine {
namespace {

// One block of the local rank into its destination's buffer. Enters with a window slot held.
Task push(Operation& operation, LocalRank& rank, GroupRank destination) {
  const fabric::MoveOutcome outcome = co_await operation.push(rank, destination);
  operation.leave_window(rank);
  operation.report_delivered(rank, destination, outcome);  // its service process marks, counts and releases
}

}  // namespace

Task alltoall_scatter_dest(Operation& operation, LocalRank& rank) {
  operation.announce_receive_blocks(rank);  // my buffer may be written
  for (;;) {
    const std::optional<GroupRank> destination = co_await rank.next_ready_peer();  // own rank + 1 first
    if (!destination) break;                                                       // every block is on its way
    co_await operation.enter_window(rank);
    rank.spawn(push(operation, rank, *destination));
  }
  co_await rank.filled_and_released();
  operation.complete(rank);
}

}  // namespace outrigger::engine
