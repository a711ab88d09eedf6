// direct: every member reads its block out of the root's buffer.
//
// Source: S. Chakraborty et al., "Contention-Aware Kernel-Assisted MPI Collectives for Multi-/Many-Core Systems", 2017:
// "parallel read".
//
// Source and code (-: ours):
//     the root tells the addresses of its blocks     | `publish`
//     all others read                                | `memory.read`
//     they tell the root, which waits for all        | `arrive`, `wait_for_copies`
//     - a member could not read: it gets chunks in   | `scatter_slots`, `pass_over`
//       slots; the others pass over these steps      |
//
// Picture (3 members, root 0):
//
//     root:   addresses ▶ step s ────────────────── waits for 1 and 2 ── returns
//     1:                ◀ ── reads ── arrives in s ── returns
//     2:                ◀ ──── reads ──── arrives in s ── returns
//
// Team of p, blocks of n:
//     cost    n read by each but the root, at the same time; one step there and one back
//     bounds  none. The root waits for the slowest reader
#include "intranode/algorithms.hpp"
#include "intranode/direct_steps.hpp"

namespace outrigger::intranode {
namespace {

Outcome lend_blocks(Meeting& meeting, const Blocks& from, std::span<std::byte> mine, std::uint64_t step, bool& all) {
  if (!meeting.wait_slot(step)) return Outcome::ended;
  publish(meeting, step, from);
  meeting.arrive(step);
  copy_own(mine, from.of(meeting.rank()));
  return wait_for_copies(meeting, step, [&](std::uint32_t /*member*/) { all = false; });
}

Outcome read_block(Meeting& meeting, PeerMemory& memory, std::span<std::byte> mine, std::uint32_t root,
                   std::uint64_t step, bool& read) {
  if (!meeting.wait_arrived(root, step) || !meeting.wait_slot(step)) return Outcome::ended;
  read = mine.empty() || memory.read(root, published(meeting, root, step), mine);
  meeting.set_word(step, read ? 1 : 0);
  meeting.arrive(step);
  return Outcome::done;
}

}  // namespace

Outcome scatter_direct(Meeting& meeting, PeerMemory& memory, const Blocks& from, std::span<std::byte> mine,
                       std::uint32_t root, bool equal, std::uint64_t longest) {
  const std::uint64_t step = meeting.begin();
  bool complete = true;
  if (meeting.rank() == root && !meeting.fits(root, from.of(root).size(), mine.size())) return Outcome::ended;
  const Outcome outcome = meeting.rank() == root ? lend_blocks(meeting, from, mine, step, complete)
                                                 : read_block(meeting, memory, mine, root, step, complete);
  if (outcome != Outcome::done) return outcome;
  if (!complete) {
    meeting.end();  // the step before it has readers in a v-form
    return scatter_slots(meeting, from, mine, root, equal, nullptr);
  }
  const Cells cells = equal ? Cells(meeting.size(), longest) : Cells::with_lengths(meeting.size());
  return pass_over(meeting, steps_of(longest, cells.bytes()));
}

}  // namespace outrigger::intranode
