// branches: the root copies a short block into its slot, the leaders of the other branches copy it into theirs.
//
// Source: MPICH's release-gather ("Framework for Scalable Intra-node Collective Operations using Shared Memory", Jain
// et al., SC 2018), release step, with the levels of Open MPI's coll/xhc.
//
// Source and code (-: ours):
//     the parent copies a block into a cell when its   | `wait_short_slot`, `copy_in`
//        children have read what was there             |
//     it releases the children                         | `arrive`
//     a child copies the block out                     | `wait_arrived`, `copy_out`
//     - the root leads its branch: no step up to a     | `leader`
//       leader                                         |
//     it tells that the cell is free                   | `end`
//
// Picture (branches 0 1 and 2 3, root 1, step s):
//
//     slot of 1: | block | ──▶ 0
//                          ──▶ 2, slot of 2: | block | ──▶ 3
//
// Team of p in branches of g, n bytes:
//     cost    n copied in by each leader, n copied out by each member; each loads the lines of one slot, in two cache
//             misses one after the other. The root's are loaded by g - 1 + p / g - 1 members; broadcast_slots.cpp: by
//             p - 1
//     bounds  blocks up to kShortBytes; a leader is kArrivals calls ahead of the slowest member at most. It loads
//             `left` of all others in each eighth call
#include "intranode/algorithms.hpp"
#include "intranode/branches.hpp"
#include "intranode/slot_copies.hpp"

namespace outrigger::intranode {

Outcome broadcast_branches(Meeting& meeting, const Branches& branches, std::span<std::byte> buffer,
                           std::uint32_t root) {
  const std::uint64_t step = meeting.begin();
  const std::uint32_t leader = branches.leader(branches.of(meeting.rank()), root);
  const std::uint32_t parent = meeting.rank() == leader ? root : leader;
  if (meeting.rank() != root) {
    if (!meeting.wait_arrived(parent, step)) return Outcome::ended;
    copy_out(buffer, meeting.short_slot(parent, step, buffer.size()));
  }
  if (meeting.rank() == leader) {
    if (!meeting.wait_short_slot(step, buffer.size())) return Outcome::ended;
    meeting.copy_in(meeting.short_slot(leader, step, buffer.size()), buffer);
    meeting.arrive(step);
  }
  meeting.end();
  return Outcome::done;
}

}  // namespace outrigger::intranode
