// direct: every member reads its block out of the root's buffer, and the root writes into theirs.
//
// Source: S. Chakraborty et al., "Contention-Aware Kernel-Assisted MPI Collectives for Multi-/Many-Core Systems", 2017:
// "parallel read".
//
// Source and code (-: ours):
//     the root tells the addresses of its blocks     | `publish`
//     all others read                                | `read_lent`
//     they tell the root, which waits for all        | `read_lent`, `lend_blocks`
//     - the root does not only wait: it writes, too  | `lend_blocks`, shared_copy.hpp
//     - a member could not copy: it gets chunks in   | `scatter_slots`, `pass_over`
//       slots; the others pass over these steps      |
//
// Picture (3 members, root 0):
//
//     root:   addresses ▶ step s ── writes to 1, 2, 1, 2 ── waits for 1 and 2 ── returns
//     1:      arrives in step s ── reads ── owned ▶ ── returns
//     2:      arrives in step s ── reads ── owned ▶ ── returns
//
// Team of p, blocks of n:
//     cost    n (p - 1) / p copied by each, at the same time; one step there and one flag back
//     bounds  none. The root waits for the slowest reader
#include "intranode/algorithms.hpp"
#include "intranode/direct_steps.hpp"

namespace outrigger::intranode {
namespace {

Outcome lend_all(Meeting& meeting, PeerMemory& memory, const Blocks& from, std::span<std::byte> mine,
                 std::uint64_t step, bool& all) {
  if (!publish(meeting, step, from)) return Outcome::ended;
  meeting.arrive(step);
  copy_own(mine, from.of(meeting.rank()));
  return lend_blocks(
      meeting, memory, step, [&](std::uint32_t member) { return from.of(member); },
      [&](std::uint32_t /*member*/) { all = false; });
}

Outcome read_block(Meeting& meeting, PeerMemory& memory, std::span<std::byte> mine, std::uint32_t root,
                   std::uint64_t step, bool& complete) {
  if (mine.empty()) return Outcome::done;
  const auto address = [&] { return published(meeting, root, step); };
  return read_lent(meeting, memory, mine, root, step, address, complete);
}

}  // namespace

Outcome scatter_direct(Meeting& meeting, PeerMemory& memory, const Blocks& from, std::span<std::byte> mine,
                       std::uint32_t root, bool equal, std::uint64_t longest) {
  const std::uint64_t step = meeting.begin();
  bool complete = true;
  if (meeting.rank() == root && !meeting.fits(root, from.of(root).size(), mine.size())) return Outcome::ended;
  const Outcome outcome = meeting.rank() == root ? lend_all(meeting, memory, from, mine, step, complete)
                                                 : read_block(meeting, memory, mine, root, step, complete);
  if (outcome != Outcome::done) return outcome;
  if (!complete) return scatter_slots(meeting, from, mine, root, equal, {});
  const Cells cells = equal ? Cells(meeting.size(), longest) : Cells::with_lengths(meeting.size());
  return pass_over(meeting, steps_of(longest, cells.bytes()));
}

}  // namespace outrigger::intranode
