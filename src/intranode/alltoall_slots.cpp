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
//     cost    n (p - 1) copied in and out by each; a step for each 32 KiB / (p - 1) of the longest block
//     bounds  one slot of 32 KiB and step
//
// In place: what a step overwrites is in the slot already.
#include "intranode/algorithms.hpp"
#include "intranode/slot_copies.hpp"

namespace outrigger::intranode {
namespace {

// Contents of the first step of a v-form: lengths, and the blocks unless these are copied directly.
struct FirstStep {
  bool lengths = false;
  bool blocks = true;
};

void fill_cells(Meeting& meeting, const Cells& cells, const Blocks& from, std::uint64_t step, std::uint64_t done,
                const FirstStep& fills) {
  std::byte* slot = meeting.own_slot(step, cells.all());
  for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
    const std::uint32_t other = meeting.after(distance);
    const std::span<const std::byte> block = from.of(other);
    std::byte* cell = cells.in(slot, meeting.rank(), other);
    if (fills.lengths) Cells::set_length(cell, block.size());
    if (fills.blocks) meeting.copy_in(cell, piece_of(block, done, cells.bytes()));
  }
}

// Equal blocks that a step takes together.
Outcome exchange_once(Meeting& meeting, const Blocks& from, const Blocks& into) {
  const std::uint64_t step = meeting.begin();
  const std::uint32_t me = meeting.rank();
  const std::size_t cell = from.each;
  const std::size_t cells = cell * (meeting.size() - 1);
  const auto cell_in = [cell](std::byte* slot, std::uint32_t owner, std::uint32_t reader) {
    return slot + (reader < owner ? reader : reader - 1) * cell;
  };
  if (!meeting.matches_own(cell, into.each) || !meeting.wait_slot(step, cells)) return Outcome::ended;
  std::byte* const own = meeting.own_slot(step, cells);
  for (std::uint32_t other = 0; other < meeting.size(); ++other) {
    if (other != me) meeting.copy_in(cell_in(own, me, other), {from.base + other * cell, cell});
  }
  meeting.arrive(step);
  copy_own({into.base + me * cell, cell}, from.base + me * cell);
  const auto take = [&](std::uint32_t other) {
    copy_out({into.base + other * cell, cell}, cell_in(meeting.slot(other, step, cells), other, me));
  };
  if (!meeting.wait_each_arrived(step, take)) return Outcome::ended;
  meeting.leave(step);
  return Outcome::done;
}

}  // namespace

Outcome alltoall_slots(Meeting& meeting, const Blocks& from, const Blocks& into, bool equal,
                       const DirectBlocks& direct) {
  if (equal && from.each == 0) return Outcome::done;
  if (equal && from.is_regular() && into.is_regular() && from.each * (meeting.size() - 1) <= kSlotBytes)
    return exchange_once(meeting, from, into);
  const Cells cells = equal ? Cells(meeting.size(), from.each) : Cells::with_lengths(meeting.size());
  std::uint64_t longest = from.longest(meeting.size(), meeting.rank());
  const std::uint64_t first = meeting.begin();
  if (equal && !meeting.matches_own(from.each, into.each)) return Outcome::ended;
  if (!meeting.fits(meeting.rank(), from.of(meeting.rank()).size(), into.of(meeting.rank()).size()))
    return Outcome::ended;
  if (equal) meeting.extend(steps_of(longest, cells.bytes()) - 1);
  const auto is_direct = [&] { return !equal && direct.have(longest); };
  std::uint64_t step = first;
  for (std::uint64_t done = 0; step == first || done < longest; done += cells.bytes(), ++step) {
    const bool tells = !equal && step == first;
    if (!meeting.wait_slot(step, cells.all())) return Outcome::ended;
    fill_cells(meeting, cells, from, step, done, {.lengths = tells, .blocks = !is_direct()});
    if (tells) meeting.set_word(step, longest);
    meeting.arrive(step);
    if (step == first) copy_own(into.of(meeting.rank()), from.of(meeting.rank()));
    for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
      const std::uint32_t other = meeting.after(distance);
      if (!meeting.wait_arrived(other, step)) return Outcome::ended;
      const std::byte* cell = cells.in(meeting.slot(other, step, cells.all()), other, meeting.rank());
      if (tells && !meeting.fits(other, Cells::length(cell), into.of(other).size())) return Outcome::ended;
      if (tells) longest = std::max(longest, meeting.word(other, step));
      if (!is_direct()) copy_out(piece_of(into.of(other), done, cells.bytes()), cell);
    }
    if (tells) meeting.saw_longest(longest);
    if (is_direct()) return alltoall_direct(meeting, *direct.memory, from, into, false);
    if (tells) meeting.extend(steps_of(longest, cells.bytes()) - 1);
    meeting.leave(step);
  }
  return Outcome::done;
}

}  // namespace outrigger::intranode
