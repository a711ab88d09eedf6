// direct: every member reads its blocks out of the others' buffers.
//
// Source: pairwise exchange (R. Thakur et al., "Optimization of Collective Communication Operations in MPICH", 2005,
// section 5), with the kernel's copies between processes in place of messages (S. Chakraborty et al., "Contention-Aware
// Kernel-Assisted MPI Collectives for Multi-/Many-Core Systems", 2017).
//
// Source and code (-: ours):
//     members exchange the addresses of their buffers      | `publish`
//     in step k a member reads from the member k away: so  | `meeting.after(distance)`, `memory.read`
//        no two read from the same one
//     all wait until all have read                         | `end_together`
//     - a member could not read: all begin again, by slots | `alltoall_slots`
//
// Picture (3 members; ab: block of a for b):
//
//     buffer of 0: | 01 | 02 |    member 0 reads 10, then 20
//     buffer of 1: | 10 | 12 |    member 1 reads 21, then 01
//     buffer of 2: | 20 | 21 |    member 2 reads 02, then 12
//
// Team of p, blocks of n:
//     cost    n (p - 1) read by each; two steps
//     bounds  none. A member that is late holds up all others
//
// Not in place: members read while others write.
#include "intranode/algorithms.hpp"
#include "intranode/direct_steps.hpp"

namespace outrigger::intranode {

Outcome alltoall_direct(Meeting& meeting, PeerMemory& memory, const Blocks& from, const Blocks& into, bool equal) {
  const std::uint64_t step = meeting.begin();
  meeting.extend(1);
  if (equal && !meeting.matches_own(from.each, into.each)) return Outcome::ended;
  if (!publish(meeting, step, from)) return Outcome::ended;
  meeting.arrive(step);
  if (equal) copy_own(into.of(meeting.rank()), from.of(meeting.rank()));  // a v-form has done it before
  bool all = true;
  for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
    const std::uint32_t other = meeting.after(distance);
    if (!meeting.wait_arrived(other, step)) return Outcome::ended;
    const std::span<std::byte> block = into.of(other);
    if (!block.empty() && !memory.read(other, published(meeting, other, step), block)) all = false;
  }
  if (end_together(meeting, step + 1, all) != Outcome::done) return Outcome::ended;
  return all ? Outcome::done : alltoall_slots(meeting, from, into, equal, {});
}

}  // namespace outrigger::intranode
