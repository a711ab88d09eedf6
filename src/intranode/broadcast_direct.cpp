// direct: every member reads out of the root's buffer, and the root writes into theirs.
//
// Source: S. Chakraborty et al., "Contention-Aware Kernel-Assisted MPI Collectives for Multi-/Many-Core Systems", 2017:
// "direct read".
//
// Source and code (-: ours):
//     the root tells the address of its buffer       | `set_word`
//     all others read                                | `read_lent`
//     they tell the root, which waits for all        | `read_lent`, `lend_blocks`
//     - the root does not only wait: it writes, too  | `lend_blocks`, shared_copy.hpp
//     - a member could not copy: it gets chunks in   | `broadcast_slots`, `pass_over`
//       slots; the others pass over these steps      |
//
// Picture (3 members, root 0):
//
//     root:   address ▶ step s ── writes to 1, 2, 1, 2 ── waits for 1 and 2 ── returns
//     1:      arrives in step s ── reads ── owned ▶ ── returns
//     2:      arrives in step s ── reads ── owned ▶ ── returns
//
// Team of p, n bytes:
//     cost    n (p - 1) / p copied by each, at the same time; one step there and one flag back
//     bounds  none. The root waits for the slowest reader
#include "intranode/algorithms.hpp"
#include "intranode/direct_steps.hpp"

namespace outrigger::intranode {
namespace {

Outcome lend_buffer(Meeting& meeting, PeerMemory& memory, std::span<std::byte> buffer, std::uint64_t step, bool& all) {
  if (!meeting.wait_slot(step)) return Outcome::ended;
  meeting.set_word(step, address_of(buffer.data()));
  meeting.arrive(step);
  return lend_blocks(
      meeting, memory, step, [&](std::uint32_t /*member*/) { return buffer; },
      [&](std::uint32_t /*member*/) { all = false; });
}

}  // namespace

Outcome broadcast_direct(Meeting& meeting, PeerMemory& memory, std::span<std::byte> buffer, std::uint32_t root) {
  const std::uint64_t step = meeting.begin();
  bool complete = true;
  const Outcome outcome = meeting.rank() == root ? lend_buffer(meeting, memory, buffer, step, complete)
                                                 : read_lent(
                                                       meeting, memory, buffer, root, step,
                                                       [&] { return meeting.word(root, step); }, complete);
  if (outcome != Outcome::done) return outcome;
  return complete ? pass_over(meeting, steps_of(buffer.size(), kSlotBytes)) : broadcast_slots(meeting, buffer, root);
}

}  // namespace outrigger::intranode
