// slots: every member copies its blocks into cells of its slot, one for each reader, and copies its own cells out of
// the others' slots.
//
// Source: pairwise exchange (R. Thakur et al., "Optimization of Collective Communication Operations in MPICH", 2005,
// section 5), with shared memory in place of messages.
//
// Source and code (-: ours):
//     in step k a member exchanges with the member k away  | `meeting.after(distance)`
//     it sends its block ...                               | `copy_in`, all of them first
//     ... and receives one                                 | `copy_out`
//     - pieces of long blocks                              | `cells.bytes()`
//     - nobody knows the longest block of a v-form alone   | `set_word`, `extend`
//
// Picture (3 members; ab: block of a for b):
//
//     slot of 0: | 01 | 02 |    member 1 reads 01, 21
//     slot of 1: | 10 | 12 |    member 2 reads 02, 12
//     slot of 2: | 20 | 21 |    member 0 reads 10, 20
//
// Team of p, blocks of n:
//     cost    n (p - 1) copied in and n (p - 1) copied out by each; a step for each 32 KiB / (p - 1) of the longest
//     block bounds  one slot of 32 KiB and step
//
// In place: what a step overwrites is in the slot already.
#include "intranode/algorithms.hpp"
#include "intranode/slot_copies.hpp"

namespace outrigger::intranode {
namespace {

std::uint64_t longest_of(const Blocks& blocks, const Meeting& meeting) {
  std::uint64_t longest = 0;
  for (std::uint32_t other = 0; other < meeting.size(); ++other) {
    if (other != meeting.rank()) longest = std::max<std::uint64_t>(longest, blocks.of(other).size());
  }
  return longest;
}

void fill_cells(Meeting& meeting, const Cells& cells, const Blocks& from, std::uint64_t step, std::uint64_t done) {
  std::byte* slot = meeting.own_slot(step, cells.all());
  for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
    const std::uint32_t other = meeting.after(distance);
    meeting.copy_in(cells.in(slot, meeting.rank(), other),
                    piece_of<const std::byte>(from.of(other), done, cells.bytes()));
  }
}

}  // namespace

Outcome alltoall_slots(Meeting& meeting, const Blocks& from, const Blocks& into, bool equal) {
  if (equal && from.each == 0) return Outcome::done;
  const Cells cells(meeting.size(), equal ? from.each : kSlotBytes);
  std::uint64_t longest = longest_of(from, meeting);
  const std::uint64_t first = meeting.begin();
  if (equal) meeting.extend(steps_of(longest, cells.bytes()) - 1);
  std::uint64_t step = first;
  for (std::uint64_t done = 0; step == first || done < longest; done += cells.bytes(), ++step) {
    if (!meeting.wait_slot(step)) return Outcome::ended;
    fill_cells(meeting, cells, from, step, done);
    if (!equal && step == first) meeting.set_word(step, longest);
    meeting.arrive(step);
    if (step == first) copy_own(into.of(meeting.rank()), from.of(meeting.rank()).data());
    for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
      const std::uint32_t other = meeting.after(distance);
      if (!meeting.wait_arrived(other, step)) return Outcome::ended;
      copy_out(piece_of(into.of(other), done, cells.bytes()),
               cells.in(meeting.slot(other, step, cells.all()), other, meeting.rank()));
      if (!equal && step == first) longest = std::max(longest, meeting.word(other, step));
    }
    if (!equal && step == first) meeting.extend(steps_of(longest, cells.bytes()) - 1);
    meeting.leave(step);
  }
  return Outcome::done;
}

}  // namespace outrigger::intranode
