// slots: the root copies chunks into its two slots alternately, the others copy them out.
//
// Source: MPICH's release-gather ("Framework for Scalable Intra-node Collective Operations using Shared Memory", Jain
// et al., SC 2018): a shared buffer of cells per tree node, filled and read in a pipeline.
//
// Source and code (-: ours):
//     the parent copies a chunk into a cell when its   | `wait_slot`, `copy_in`
//        children have read what was there             |
//     it releases the children                         | `arrive`
//     a child copies the chunk out                     | `wait_arrived`, `copy_out`
//     it tells that the cell is free                   | `leave`
//     - the last chunk's readers are not waited for    | `end`
//
// Picture (chunks a, b, c from step s on):
//
//     root:   a ▶ slot s ── b ▶ slot s+1 ── (left >= s) c ▶ slot s+2 ── returns
//     others:     a ◀ ─────────── b ◀ ─────────────────────── c ◀
//
// Team of p, n bytes in chunks of 32 KiB:
//     cost    n copied in by the root, n copied out by each other, one after the other only for the first chunk
//     bounds  two slots; the root is at most two chunks ahead of the slowest reader, or kArrivals short calls
#include "intranode/algorithms.hpp"
#include "intranode/slot_copies.hpp"

namespace outrigger::intranode {

Outcome broadcast_slots(Meeting& meeting, std::span<std::byte> buffer, std::uint32_t root) {
  std::uint64_t step = meeting.begin();
  meeting.extend(steps_of(buffer.size(), kSlotBytes) - 1);
  for (std::uint64_t done = 0; done < buffer.size(); done += kSlotBytes, ++step) {
    const std::span<std::byte> chunk = piece_of(buffer, done, kSlotBytes);
    if (meeting.rank() == root) {
      if (!meeting.wait_slot(step, chunk.size())) return Outcome::ended;
      meeting.copy_in(meeting.own_slot(step, chunk.size()), chunk);
      meeting.arrive(step);
    } else {
      if (!meeting.wait_arrived(root, step)) return Outcome::ended;
      copy_out(chunk, meeting.slot(root, step, chunk.size()));
      meeting.leave(step);
    }
  }
  meeting.end();
  return Outcome::done;
}

}  // namespace outrigger::intranode
