// flat: allgather by the source's service process, which writes each of its ranks' blocks to every rank.
//
// Source: N. Sarkauskas et al., "Large-Message Nonblocking MPI_Iallgather and MPI_Ibcast Offload via BlueField-2 DPU",
// HiPC 2021, section V.A. There the service process first reads its ranks' blocks into memory of its own and writes
// from that; here a block is moved straight from its rank, and the fabric stages where it has to (never between
// memories that the service process maps). Reading into staging once for all destinations is the price of private
// memory there, and is left to the fabric. The paper leaves open how a source learns that a destination has entered:
// announcements, reports and replay are ours, the same as for the sender-driven all-to-all.
//
// Picture (4 ranks, 2 service processes; round-robin from the own rank, so that no rank is everybody's first):
//
//     step        0   1   2   3            receive buffers, by source
//     rank 0  ->  1   2   3   0            rank 0  [0|1|2|3]
//     rank 1  ->  2   3   0   1            rank 1  [0|1|2|3]
//     rank 2  ->  3   0   1   2            ...     each source's place is the same everywhere
//     rank 3  ->  0   1   2   3
//
// A destination that has not entered is passed over and served when it arrives.
//
// Per local rank, group of p, s service processes with members:
//     announcements   s - 1 (each 108 bytes, and 16 bytes a pair in the v-form): where my receive buffer is
//     rounds          p - 1 pushes of one and the same block, and the own one, at most `window_moves` in flight
//     on the wire     the block once for every rank of another node (so best with one rank a node); per push a report
//                     (76 bytes) there and a release (52 bytes) back
//     bounds          state O(p) per local rank; at most one push of a block to a rank is in flight, ever
#include "engine/core/operation.hpp"

namespace outrigger::engine {
namespace {

// The local rank's block into its place in the destination's buffer. Enters with a window slot held.
Task write_to(Operation& operation, LocalRank& rank, GroupRank destination) {
  const Block from = rank.push_from(destination);  // the same for all
  const Block to = rank.push_to(destination);
  const fabric::MoveOutcome outcome = co_await operation.move(from, to);
  operation.leave_window(rank);
  operation.report_delivered(rank, destination, outcome);  // its service process marks, counts and releases
}

}  // namespace

Task allgather_flat(Operation& operation, LocalRank& rank) {
  operation.announce_receive_blocks(rank);  // every rank's block has its place here
  for (;;) {
    const std::optional<GroupRank> destination = co_await rank.next_ready_peer();  // own rank + 1 first
    if (!destination) break;                                                       // to all that expect it
    co_await operation.enter_window(rank);
    rank.spawn(write_to(operation, rank, *destination));
  }
  co_await rank.filled_and_released();
  operation.complete(rank);
}

}  // namespace outrigger::engine
