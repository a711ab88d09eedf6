// direct: every member writes its block into the root's buffer.
//
// Source: S. Chakraborty et al., "Contention-Aware Kernel-Assisted MPI Collectives for Multi-/Many-Core Systems", 2017:
// "parallel write".
//
// Source and code (-: ours):
//     the root tells the addresses of its blocks     | `publish`
//     all others write                               | `memory.write`
//     they tell the root, which waits for all        | `arrive`, `wait_for_copies`
//     - a member could not write: it sends chunks in | `gather_slots`, `pass_over`
//       slots; the others pass over these steps      |
//
// Picture (3 members, root 0):
//
//     root:   addresses ▶ step s ─────────────────── waits for 1 and 2 ── returns
//     1:                ◀ ── writes ── arrives in s ── returns
//     2:                ◀ ──── writes ──── arrives in s ── returns
//
// Team of p, blocks of n:
//     cost    n written by each but the root, at the same time; one step there and one back
//     bounds  none. The others wait for the root
#include <array>

#include "intranode/algorithms.hpp"
#include "intranode/direct_steps.hpp"

namespace outrigger::intranode {
namespace {

Outcome receive_blocks(Meeting& meeting, std::span<const std::byte> mine, const Blocks& into, std::uint64_t step) {
  if (!meeting.fits(meeting.rank(), mine.size(), into.each) || !meeting.wait_slot(step)) return Outcome::ended;
  publish(meeting, step, into);
  meeting.arrive(step);
  copy_own(into.of(meeting.rank()), mine);
  // For blocks that did not come.
  std::array<std::uint64_t, kMostMembers> bytes{};
  std::array<std::uint64_t, kMostMembers> offsets{};
  bool complete = true;
  const Outcome outcome = wait_for_copies(meeting, step, [&](std::uint32_t member) {
    const std::span<std::byte> block = into.of(member);
    bytes[member] = block.size();
    offsets[member] = static_cast<std::uint64_t>(block.data() - into.base);
    complete = false;
  });
  if (outcome != Outcome::done) return outcome;
  if (complete) return pass_over(meeting, steps_of(into.each, kSlotBytes));
  return gather_slots(meeting, {}, Blocks::irregular(into.base, bytes.data(), offsets.data()), meeting.rank(), true);
}

}  // namespace

Outcome gather_direct(Meeting& meeting, PeerMemory& memory, std::span<const std::byte> mine, const Blocks& into,
                      std::uint32_t root) {
  const std::uint64_t step = meeting.begin();
  if (meeting.rank() == root) return receive_blocks(meeting, mine, into, step);
  if (!meeting.wait_arrived(root, step) || !meeting.wait_slot(step)) return Outcome::ended;
  const bool written = memory.write(root, published(meeting, root, step), mine);
  meeting.set_word(step, written ? 1 : 0);
  meeting.arrive(step);
  if (written) return pass_over(meeting, steps_of(mine.size(), kSlotBytes));
  meeting.end();  // other members that could not write wait for it
  return gather_slots(meeting, mine, into, root, true);
}

}  // namespace outrigger::intranode
