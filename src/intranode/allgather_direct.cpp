// direct: every member reads the others' blocks out of their buffers.
//
// Source: S. Chakraborty et al., "Contention-Aware Kernel-Assisted MPI Collectives for Multi-/Many-Core Systems", 2017:
// "ring source read".
//
// Source and code (-: ours):
//     members exchange the addresses of their buffers      | `set_word`
//     in step k a member reads from the member k away: so  | `meeting.after(distance)`, `memory.read`
//        no two read from the same one
//     all wait until all have read                         | `end_together`
//     - a member could not read: all begin again, by slots | `allgather_slots`
//
// Picture (3 members):
//
//     buffer of 0: | 0 |    read by 2, then 1
//     buffer of 1: | 1 |    read by 0, then 2
//     buffer of 2: | 2 |    read by 1, then 0
//
// Team of p, blocks of n:
//     cost    n (p - 1) read by each; two steps
//     bounds  none. A member that is late holds up all others
#include "intranode/algorithms.hpp"
#include "intranode/direct_steps.hpp"

namespace outrigger::intranode {

Outcome allgather_direct(Meeting& meeting, PeerMemory& memory, std::span<const std::byte> mine, const Blocks& into) {
  const std::uint64_t step = meeting.begin();
  meeting.extend(1);
  if (!meeting.matches_own(mine.size(), into.of(meeting.rank()).size())) return Outcome::ended;
  if (!meeting.wait_slot(step)) return Outcome::ended;
  meeting.set_word(step, address_of(mine.data()));
  meeting.arrive(step);
  copy_own(into.of(meeting.rank()), mine.data());
  bool all = true;
  for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
    const std::uint32_t other = meeting.after(distance);
    if (!meeting.wait_arrived(other, step)) return Outcome::ended;
    const std::span<std::byte> block = into.of(other);
    if (!block.empty() && !memory.read(other, meeting.word(other, step), block)) all = false;
  }
  if (end_together(meeting, step + 1, all) != Outcome::done) return Outcome::ended;
  return all ? Outcome::done : allgather_slots(meeting, mine, into);
}

}  // namespace outrigger::intranode
