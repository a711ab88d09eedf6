// slots: every member copies its block into its slot and copies the others' out.
//
// Source: MPICH's release-gather ("Framework for Scalable Intra-node Collective Operations using Shared Memory", Jain
// et al., SC 2018), with a buffer for each member instead of each parent.
//
// Source and code (-: ours):
//     a member copies a chunk into its cell when it is free | `wait_slot`, `copy_in`
//     it releases the others                                | `arrive`
//     each copies the chunk out                             | `wait_each_arrived`, `copy_out`
//     - beginning with the member after it: not all at once | `wait_each_arrived`
//
// Picture (3 members):
//
//     slot of 0: | 0 |    read by 1, 2
//     slot of 1: | 1 |    read by 2, 0
//     slot of 2: | 2 |    read by 0, 1
//
// Team of p, blocks of n:
//     cost    n copied in and n (p - 1) copied out by each; a step for each 32 KiB of the longest block
//     bounds  one slot of 32 KiB and step
#include "intranode/algorithms.hpp"
#include "intranode/slot_copies.hpp"

namespace outrigger::intranode {

Outcome allgather_slots(Meeting& meeting, std::span<const std::byte> mine, const Blocks& into) {
  const std::uint64_t longest = into.longest(meeting.size());
  if (longest == 0) return Outcome::done;
  std::uint64_t step = meeting.begin();
  if (!meeting.matches_own(mine.size(), into.of(meeting.rank()).size())) return Outcome::ended;
  meeting.extend(steps_of(longest, kSlotBytes) - 1);
  for (std::uint64_t done = 0; done < longest; done += kSlotBytes, ++step) {
    const std::span<const std::byte> own = piece_of(mine, done, kSlotBytes);
    if (!meeting.wait_slot(step, own.size())) return Outcome::ended;
    meeting.copy_in(meeting.own_slot(step, own.size()), own);
    meeting.arrive(step);
    copy_own(piece_of(into.of(meeting.rank()), done, kSlotBytes), own.data());
    const auto take = [&](std::uint32_t other) {
      const std::span<std::byte> piece = piece_of(into.of(other), done, kSlotBytes);
      copy_out(piece, meeting.slot(other, step, piece.size()));
    };
    if (!meeting.wait_each_arrived(step, take)) return Outcome::ended;
    meeting.leave(step);
  }
  return Outcome::done;
}

}  // namespace outrigger::intranode
