// direct: every member reads out of the root's buffer.
//
// Source: S. Chakraborty et al., "Contention-Aware Kernel-Assisted MPI Collectives for Multi-/Many-Core Systems", 2017:
// "direct read".
//
// Source and code (-: ours):
//     the root tells the address of its buffer       | `set_word`
//     all others read                                | `memory.read`
//     they tell the root, which waits for all        | `arrive`, `wait_for_copies`
//     - a member could not read: it gets chunks in   | `broadcast_slots`, `pass_over`
//       slots; the others pass over these steps      |
//
// Picture (3 members, root 0):
//
//     root:   address ▶ step s ────────────────── waits for 1 and 2 ── returns
//     1:              ◀ ── reads ── arrives in s ── returns
//     2:              ◀ ──── reads ──── arrives in s ── returns
//
// Team of p, n bytes:
//     cost    n read by each but the root, at the same time; one step there and one back
//     bounds  none. The root waits for the slowest reader
#include "intranode/algorithms.hpp"
#include "intranode/direct_steps.hpp"

namespace outrigger::intranode {
namespace {

Outcome lend_buffer(Meeting& meeting, std::span<std::byte> buffer, std::uint64_t step, bool& all) {
  if (!meeting.wait_slot(step)) return Outcome::ended;
  meeting.set_word(step, address_of(buffer.data()));
  meeting.arrive(step);
  return wait_for_copies(meeting, step, [&](std::uint32_t /*member*/) { all = false; });
}

Outcome read_buffer(Meeting& meeting, PeerMemory& memory, std::span<std::byte> buffer, std::uint32_t root,
                    std::uint64_t step, bool& read) {
  if (!meeting.wait_arrived(root, step) || !meeting.wait_slot(step)) return Outcome::ended;
  read = memory.read(root, meeting.word(root, step), buffer);
  meeting.set_word(step, read ? 1 : 0);
  meeting.arrive(step);
  return Outcome::done;
}

}  // namespace

Outcome broadcast_direct(Meeting& meeting, PeerMemory& memory, std::span<std::byte> buffer, std::uint32_t root) {
  const std::uint64_t step = meeting.begin();
  bool complete = true;
  const Outcome outcome = meeting.rank() == root ? lend_buffer(meeting, buffer, step, complete)
                                                 : read_buffer(meeting, memory, buffer, root, step, complete);
  if (outcome != Outcome::done) return outcome;
  return complete ? pass_over(meeting, steps_of(buffer.size(), kSlotBytes)) : broadcast_slots(meeting, buffer, root);
}

}  // namespace outrigger::intranode
