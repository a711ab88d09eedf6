// direct: the root reads every member's block out of its buffer.
//
// Source: S. Chakraborty et al., "Contention-Aware Kernel-Assisted MPI Collectives for Multi-/Many-Core Systems", 2017:
// "sequential read".
//
// Source and code (-: ours):
//     the others tell the addresses of their blocks  | `set_word`
//     the root reads block after block               | `memory.read`
//     it tells the others, which wait for it         | `arrive`, `wait_arrived`
//     - it could not read: all send chunks in slots  | `gather_slots`
//
// Picture (3 members, root 0):
//
//     1:      address ▶ step s ───────────────────────────────── waits for 0 ── returns
//     2:      address ▶ step s ───────────────────────────────── waits for 0 ── returns
//     root:             ◀ ── reads from 1 ── reads from 2 ── arrives in s + 1 ── returns
//
// Team of p, blocks of n:
//     cost    n (p - 1) read by the root; one step there and one back
//     bounds  none. The root waits for the slowest of the others, and these wait for the root
//
// No member writes into another's memory: a root whose call has failed may use its buffer for something else.
#include "intranode/algorithms.hpp"
#include "intranode/direct_steps.hpp"

namespace outrigger::intranode {
namespace {

// `read`: of all blocks.
Outcome read_blocks(Meeting& meeting, PeerMemory& memory, std::span<const std::byte> mine, const Blocks& into,
                    std::uint64_t step, bool& read) {
  if (!meeting.fits(meeting.rank(), mine.size(), into.each)) return Outcome::ended;
  copy_own(into.of(meeting.rank()), mine);
  for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
    const std::uint32_t other = meeting.after(distance);
    if (!meeting.wait_arrived(other, step)) return Outcome::ended;
    read = memory.read(other, meeting.word(other, step), into.of(other)) && read;
  }
  if (!meeting.wait_slot(step + 1)) return Outcome::ended;
  meeting.set_word(step + 1, read ? 1 : 0);
  meeting.arrive(step + 1);
  return Outcome::done;
}

Outcome lend_block(Meeting& meeting, std::span<const std::byte> mine, std::uint32_t root, std::uint64_t step,
                   bool& read) {
  if (!meeting.wait_slot(step)) return Outcome::ended;
  meeting.set_word(step, address_of(mine.data()));
  meeting.arrive(step);
  if (!meeting.wait_arrived(root, step) || !meeting.wait_arrived(root, step + 1)) return Outcome::ended;
  read = meeting.word(root, step + 1) == 1;
  return Outcome::done;
}

}  // namespace

Outcome gather_direct(Meeting& meeting, PeerMemory& memory, std::span<const std::byte> mine, const Blocks& into,
                      std::uint32_t root) {
  const std::uint64_t step = meeting.begin();
  meeting.extend(1);
  bool read = true;
  const Outcome outcome = meeting.rank() == root ? read_blocks(meeting, memory, mine, into, step, read)
                                                 : lend_block(meeting, mine, root, step, read);
  if (outcome != Outcome::done) return outcome;
  meeting.end();
  return read ? Outcome::done : gather_slots(meeting, mine, into, root, true);
}

}  // namespace outrigger::intranode
