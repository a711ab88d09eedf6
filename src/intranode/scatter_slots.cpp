// slots: the root copies the blocks into cells of its slots, one for each reader, and each member copies its own out.
//
// Source: MPICH's release-gather ("Framework for Scalable Intra-node Collective Operations using Shared Memory", Jain
// et al., SC 2018), release step.
//
// Source and code (-: ours):
//     the parent copies chunks into cells when they are free | `wait_slot`, `copy_in`
//     it releases the children                               | `arrive`
//     a child copies its chunk out                           | `wait_arrived`, `copy_out`
//     it tells that the cell is free                         | `leave`
//     - only the root of a v-form knows the longest block    | `set_word`, `extend`
//
// Picture (root 0):
//
//     slots of 0: | 1 | 2 | 3 |  step s        1, 2, 3 read a cell each
//                 | 1 | 2 | 3 |  step s + 1
//
// Team of p, blocks of n:
//     cost    n (p - 1) copied in by the root, n copied out by each other
//     bounds  two slots; the root is at most two steps ahead of the slowest reader, or kArrivals short calls
#include "intranode/algorithms.hpp"
#include "intranode/slot_copies.hpp"

namespace outrigger::intranode {
namespace {

Outcome scatter_at_root(Meeting& meeting, const Blocks& from, std::span<std::byte> mine, bool equal,
                        const DirectBlocks& direct) {
  const std::uint64_t longest = from.longest(meeting.size(), meeting.rank());
  const Cells cells = equal ? Cells(meeting.size(), from.each) : Cells::with_lengths(meeting.size());
  const bool is_direct = !equal && direct.have(longest);
  const std::uint64_t first = meeting.begin();
  const std::span<const std::byte> own = from.of(meeting.rank());
  if (!meeting.fits(meeting.rank(), own.size(), mine.size())) return Outcome::ended;
  std::uint64_t step = first;
  if (!is_direct) meeting.extend(steps_of(longest, cells.bytes()) - 1);
  for (std::uint64_t done = 0; done < longest || step == first; done += cells.bytes(), ++step) {
    if (!meeting.wait_slot(step, cells.all())) return Outcome::ended;
    for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
      const std::uint32_t other = meeting.after(distance);
      const std::span<const std::byte> block = from.of(other);
      std::byte* cell = cells.in(meeting.own_slot(step, cells.all()), meeting.rank(), other);
      if (!equal && step == first) Cells::set_length(cell, block.size());
      if (!is_direct) meeting.copy_in(cell, piece_of(block, done, cells.bytes()));
    }
    if (!equal && step == first) {
      meeting.saw_longest(longest);
      meeting.set_word(step, longest);
    }
    meeting.arrive(step);
    if (is_direct) return scatter_direct(meeting, *direct.memory, from, mine, meeting.rank(), false, longest);
  }
  copy_own(mine, own);
  meeting.end();
  return Outcome::done;
}

}  // namespace

Outcome scatter_slots(Meeting& meeting, const Blocks& from, std::span<std::byte> mine, std::uint32_t root, bool equal,
                      const DirectBlocks& direct) {
  if (meeting.rank() == root) return scatter_at_root(meeting, from, mine, equal, direct);
  const Cells cells = equal ? Cells(meeting.size(), mine.size()) : Cells::with_lengths(meeting.size());
  const std::uint64_t first = meeting.begin();
  std::uint64_t longest = mine.size();
  if (!equal) {
    if (!meeting.wait_arrived(root, first)) return Outcome::ended;
    longest = meeting.word(root, first);
    meeting.saw_longest(longest);
    const std::byte* cell = cells.in(meeting.slot(root, first, cells.all()), root, meeting.rank());
    if (!meeting.fits(root, Cells::length(cell), mine.size())) return Outcome::ended;
    if (direct.have(longest)) {
      return scatter_direct(meeting, *direct.memory, from, mine, root, false, longest);
    }
  }
  meeting.extend(steps_of(longest, cells.bytes()) - 1);
  std::uint64_t step = first;
  for (std::uint64_t done = 0; done < mine.size(); done += cells.bytes(), ++step) {
    if (!meeting.wait_arrived(root, step)) return Outcome::ended;
    copy_out(piece_of(mine, done, cells.bytes()),
             cells.in(meeting.slot(root, step, cells.all()), root, meeting.rank()));
    meeting.leave(step);
  }
  meeting.end();
  return Outcome::done;
}

}  // namespace outrigger::intranode
