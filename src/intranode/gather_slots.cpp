// slots: every member copies its block into its slots, the root copies them out.
//
// Source: MPICH's release-gather ("Framework for Scalable Intra-node Collective Operations using Shared Memory", Jain
// et al., SC 2018), gather step.
//
// Source and code (-: ours):
//     a child copies a chunk into its cell when it is free | `wait_slot_for`, `copy_in`
//     it tells its parent                                  | `arrive`
//     the parent takes the chunks of its children          | `wait_arrived`, `copy_out`
//     it tells that the cells are free                     | `leave`
//     - only the root of a v-form knows the longest block  | `set_word`, `extend`
//
// Picture (root 0):
//
//     slots of 1: | 1, chunk s | 1, chunk s + 1 | ──▶ 0
//     slots of 2: | 2, chunk s | 2, chunk s + 1 | ──▶ 0
//
// Team of p, blocks of n:
//     cost    n copied in by each, n (p - 1) copied out by the root
//     bounds  two slots; a member is at most two chunks ahead of the root. With `equal` it is at most kArrivals short
//             calls ahead
#include "intranode/algorithms.hpp"
#include "intranode/slot_copies.hpp"

namespace outrigger::intranode {
namespace {

// Members from which the root expects nothing, as bits.
std::uint64_t empty_blocks(const Meeting& meeting, const Blocks& into) {
  static_assert(kMostMembers <= 64);
  std::uint64_t empty = 0;
  for (std::uint32_t other = 0; other < meeting.size(); ++other) {
    if (into.of(other).empty()) empty |= std::uint64_t{1} << other;
  }
  return empty;
}

// Waits for the root in the first step of a v-form. Is what it says not at odds with this member's length?
bool root_expects(Meeting& meeting, std::uint32_t root, std::uint64_t first, std::uint64_t bytes) {
  if (!meeting.wait_arrived(root, first)) return false;
  const bool empty = (meeting.word(root, first, 1) >> meeting.rank() & 1) != 0;
  const std::uint64_t most = empty ? 0 : meeting.word(root, first);
  const bool can_be = bytes <= most && (bytes == 0) == empty;
  return can_be || meeting.fits(root, bytes, most);
}

Outcome gather_at_root(Meeting& meeting, std::span<const std::byte> mine, const Blocks& into, bool equal) {
  const std::uint64_t longest = into.longest(meeting.size());
  const std::uint64_t first = meeting.begin();
  std::uint64_t step = first;
  meeting.extend(steps_of(longest, kSlotBytes) - 1);
  const std::span<std::byte> own = into.of(meeting.rank());
  if (!meeting.fits(meeting.rank(), mine.size(), own.size())) return Outcome::ended;
  if (!equal) {
    if (!meeting.wait_slot(step)) return Outcome::ended;
    meeting.saw_longest(longest);
    meeting.set_word(step, longest);
    meeting.set_word(step, empty_blocks(meeting, into), 1);
    meeting.arrive(step);
  }
  copy_own(own, mine);
  for (std::uint64_t done = 0; done < longest || step == first; done += kSlotBytes, ++step) {
    for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
      const std::uint32_t other = meeting.after(distance);
      const std::span<std::byte> piece = piece_of(into.of(other), done, kSlotBytes);
      if (piece.empty()) continue;
      if (!meeting.wait_arrived(other, step)) return Outcome::ended;
      if (!equal && step == first && !meeting.says_bytes(other, meeting.rank(), into.of(other).size()))
        return Outcome::ended;
      copy_out(piece, meeting.slot(other, step, piece.size()));
    }
    meeting.leave(step);
  }
  return Outcome::done;
}

}  // namespace

Outcome gather_slots(Meeting& meeting, std::span<const std::byte> mine, const Blocks& into, std::uint32_t root,
                     bool equal) {
  if (meeting.rank() == root) return gather_at_root(meeting, mine, into, equal);
  const std::uint64_t first = meeting.begin();
  std::uint64_t step = first;
  if (equal) meeting.extend(steps_of(mine.size(), kSlotBytes) - 1);
  for (std::uint64_t done = 0; done < mine.size(); done += kSlotBytes, ++step) {
    const std::span<const std::byte> piece = piece_of(mine, done, kSlotBytes);
    if (!meeting.wait_slot_for(root, step, piece.size())) return Outcome::ended;
    // Longer than two steps: the root may expect less and be gone.
    if (!equal && step == first + kSlots && !root_expects(meeting, root, first, mine.size())) return Outcome::ended;
    meeting.copy_in(meeting.own_slot(step, piece.size()), piece);
    meeting.arrive(step);
  }
  if (!equal) {
    if (!root_expects(meeting, root, first, mine.size())) return Outcome::ended;
    meeting.saw_longest(meeting.word(root, first));
    meeting.extend(steps_of(meeting.longest(), kSlotBytes) - 1);
  }
  meeting.end();
  return Outcome::done;
}

}  // namespace outrigger::intranode
