// slots: every member copies a piece of each other's block into a cell of its slot, and combines its own cells.
//
// Source: pairwise exchange (R. Thakur et al., "Optimization of Collective Communication Operations in MPICH", 2005,
// section 6), with shared memory in place of messages.
//
// Source and code (-: ours):
//     in step k a member exchanges with the member k away | `after`
//     it sends the data that the other needs              | `copy_in`
//     it reduces what it receives into its result         | `combine_into`
//     - all at once, in the order of the caller's tree    | `combine_into`
//
// Picture (3 members; ab: contribution of a to block b):
//
//     slot of 0: | 01 | 02 |    1: 01 op 11 op 21
//     slot of 1: | 10 | 12 |    2: 02 op 12 op 22
//     slot of 2: | 20 | 21 |    0: 00 op 10 op 20
//
// Team of p, blocks of n:
//     cost    n (p - 1) copied in and n (p - 1) combined by each; a step for each 32 KiB / (p - 1) of the longest block
//     bounds  one slot of 32 KiB and step, and 32 KiB of stack
//
// In place, the result overwrites the start of the contributions: positions that a step writes are in slots already. A
// member's own piece may overlap its result, which therefore passes through the stack.
#include "intranode/algorithms.hpp"
#include "intranode/contributions.hpp"

namespace outrigger::intranode {
namespace {

void combine_apart(const Contributions& contributions, std::span<std::byte> into, const Combine& combine,
                   std::uint64_t done) {
  alignas(64) std::array<std::byte, kSlotBytes> result;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  contributions.combine_into(std::span(result).first(into.size()), combine, done);
  std::memcpy(into.data(), result.data(), into.size());
}

}  // namespace

Outcome reduce_scatter_slots(Meeting& meeting, const std::byte* mine, std::span<const std::uint64_t> bytes,
                             std::byte* into, const Combine& combine) {
  std::array<std::span<const std::byte>, kMostMembers> blocks;
  std::uint64_t longest = 0;
  std::uint64_t offset = 0;
  for (std::uint32_t member = 0; member < meeting.size(); ++member) {
    blocks[member] = {mine + offset, bytes[member]};
    offset += bytes[member];
    longest = std::max(longest, bytes[member]);
  }
  if (longest == 0) return Outcome::done;
  const std::span<const std::byte> own_block = blocks[meeting.rank()];
  const std::uint64_t own_first = combine.elements_in(static_cast<std::uint64_t>(own_block.data() - mine));
  const Cells cells(meeting.size(), longest, combine.element_bytes());
  std::uint64_t step = meeting.begin();
  meeting.extend(steps_of(longest, cells.bytes()) - 1);
  for (std::uint64_t done = 0; done < longest; done += cells.bytes(), ++step) {
    if (!meeting.wait_slot(step, cells.all())) return Outcome::ended;
    for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
      const std::uint32_t other = meeting.after(distance);
      meeting.copy_in(cells.in(meeting.own_slot(step, cells.all()), meeting.rank(), other),
                      piece_of(blocks[other], done, cells.bytes()));
    }
    meeting.arrive(step);
    const std::span<const std::byte> own = piece_of(own_block, done, cells.bytes());
    Contributions contributions(meeting.rank(), own.data());
    for (std::uint32_t distance = 1; distance < meeting.size(); ++distance) {
      const std::uint32_t other = meeting.after(distance);
      if (!meeting.wait_arrived(other, step)) return Outcome::ended;
      contributions.add(other, cells.in(meeting.slot(other, step, cells.all()), other, meeting.rank()), own.size());
    }
    if (!own.empty()) {  // `into` may be null for an empty block
      const std::span<std::byte> result(into + done, own.size());
      const std::uint64_t at = own_first * combine.element_bytes() + done;
      if (into == mine) {
        combine_apart(contributions, result, combine, at);
      } else {
        contributions.combine_into(result, combine, at);
      }
    }
    meeting.leave(step);
  }
  return Outcome::done;
}

}  // namespace outrigger::intranode
