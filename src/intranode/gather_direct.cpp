// direct: the root reads every member's block out of its buffer, and the members write into the root's.
//
// Source: S. Chakraborty et al., "Contention-Aware Kernel-Assisted MPI Collectives for Multi-/Many-Core Systems", 2017:
// "sequential read" and "parallel write", at the same time.
//
// Source and code (-: ours):
//     the others tell the addresses of their blocks  | `set_word`
//     the root reads block after block               | `read_piece`: of all blocks in turn
//     the others write theirs                        | `write_piece`
//     the root tells them when all is there          | `tell_owned`, `wait_owned`
//     - a piece is copied once                       | `SharedCopy`
//     - it could not be copied: all send chunks in   | `gather_slots`
//       slots                                        |
//
// Picture (3 members, root 0):
//
//     1:      address ▶ step s ── writes ─────────── waits for 0 ── returns
//     2:      address ▶ step s ── writes ─────────── waits for 0 ── returns
//     root:   arrives in step s ── reads from 1, 2, 1, 2 ── owned ▶ ── returns
//
// Team of p, blocks of n:
//     cost    n (p - 1) / p copied by each; one step there and one flag back
//     bounds  none. The root waits for the slowest of the others, and these wait for the root
#include "intranode/algorithms.hpp"
#include "intranode/direct_steps.hpp"

namespace outrigger::intranode {
namespace {

Outcome read_all(Meeting& meeting, PeerMemory& memory, const Blocks& into, std::uint64_t step, RootCopies& copies,
                 bool& read) {
  const Outcome made = copies.make([&](std::uint32_t other) {
    return copies.with(other)->read_piece(memory, meeting.word(other, step), into.of(other));
  });
  if (made != Outcome::done) return made;
  for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
    bool complete = true;
    if (copies.with(meeting.after(distance))->end_reading(complete) != Outcome::done) return Outcome::ended;
    read = read && complete;
  }
  return Outcome::done;
}

// `read`: all blocks are there.
Outcome read_blocks(Meeting& meeting, PeerMemory& memory, std::span<const std::byte> mine, const Blocks& into,
                    std::uint64_t step, bool& read) {
  if (!meeting.fits(meeting.rank(), mine.size(), into.each)) return Outcome::ended;
  if (!publish(meeting, step, into)) return Outcome::ended;
  RootCopies copies(meeting, step);
  for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
    const std::uint32_t other = meeting.after(distance);
    copies.with(other).emplace(meeting, meeting.rank(), other, step, into.each);
    copies.with(other)->open();
  }
  meeting.arrive(step);
  copy_own(into.of(meeting.rank()), mine);
  if (read_all(meeting, memory, into, step, copies, read) != Outcome::done) {
    for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
      copies.with(meeting.after(distance))->abandon();
    }
    return Outcome::ended;
  }
  for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
    copies.with(meeting.after(distance))->tell_owned(read);
  }
  return Outcome::done;
}

Outcome lend_block(Meeting& meeting, PeerMemory& memory, std::span<const std::byte> mine, std::uint32_t root,
                   std::uint64_t step, bool& read) {
  if (!meeting.wait_slot(step)) return Outcome::ended;
  meeting.set_word(step, address_of(mine.data()));
  meeting.arrive(step);
  if (!meeting.wait_arrived(root, step)) return Outcome::ended;
  SharedCopy copy(meeting, root, meeting.rank(), step, mine.size());
  if (!copy.fits()) return Outcome::ended;
  const std::uint64_t to = published(meeting, root, step);
  while (copy.write_piece(memory, mine, to)) continue;
  copy.end_writing();
  return copy.wait_owned(read);
}

}  // namespace

Outcome gather_direct(Meeting& meeting, PeerMemory& memory, std::span<const std::byte> mine, const Blocks& into,
                      std::uint32_t root) {
  const std::uint64_t step = meeting.begin();
  bool read = true;
  const Outcome outcome = meeting.rank() == root ? read_blocks(meeting, memory, mine, into, step, read)
                                                 : lend_block(meeting, memory, mine, root, step, read);
  if (outcome != Outcome::done) return outcome;
  meeting.end();
  return read ? Outcome::done : gather_slots(meeting, mine, into, root, true);
}

}  // namespace outrigger::intranode
