// direct: every member reads its block of all others' contributions out of their buffers, and combines it.
//
// Source: pairwise exchange (R. Thakur et al., "Optimization of Collective Communication Operations in MPICH", 2005,
// section 6), with the kernel's copies between processes in place of messages.
//
// Source and code (-: ours):
//     in step k a member exchanges with the member k away | slice_reduction.hpp `memory_->read`
//     it reduces what it receives into its result         | slice_reduction.hpp `combine_->apply`
//     - piece by piece, in the order of the caller's tree | `piece_bytes`
//     - a member could not read: all begin again, by      | `reduce_scatter_slots`
//        slots                                            |
//
// Picture (3 members; ab: contribution of a to block b):
//
//     buffer of 0: | 00 | 01 | 02 |    member 0 reads 10 and 20: 00 op 10 op 20
//     buffer of 1: | 10 | 11 | 12 |    member 1 reads 21 and 01: 01 op 11 op 21
//     buffer of 2: | 20 | 21 | 22 |    member 2 reads 02 and 12: 02 op 12 op 22
//
// Team of p, blocks of n:
//     cost    n (p - 1) read and n p combined by each; two steps
//     bounds  kHotBytes, or p times kPieceUnit; in place n
//
// In place, the result would overwrite what others read.
#include "intranode/algorithms.hpp"
#include "intranode/direct_steps.hpp"
#include "intranode/slice_reduction.hpp"

namespace outrigger::intranode {

Outcome reduce_scatter_direct(Meeting& meeting, PeerMemory& memory, const std::byte* mine,
                              std::span<const std::uint64_t> bytes, std::byte* into, const Combine& combine,
                              std::vector<std::byte>& scratch) {
  const BlockRow blocks(meeting.size(), [&](std::uint32_t member) { return bytes[member]; });
  const std::uint64_t offset = blocks.offset(meeting.rank());
  const std::uint64_t own = bytes[meeting.rank()];
  std::vector<std::byte> apart(into == mine ? own : 0);
  const std::span<std::byte> results(apart.empty() ? into : apart.data(), own);
  const std::uint64_t step = meeting.begin();
  meeting.extend(1);
  if (!meeting.wait_slot(step)) return Outcome::ended;
  SliceReduction slice(meeting, memory, mine + offset, offset, step, combine, scratch);
  slice.prepare(own);
  meeting.set_word(step, address_of(mine));
  meeting.arrive(step);
  if (!meeting.wait_all_arrived(step)) return Outcome::ended;
  const std::uint64_t most = SliceReduction::piece_bytes(own, meeting.size());
  bool all = true;
  for (std::uint64_t done = 0; all && done < own; done += most) {
    all = slice.combine(done, piece_of(results, done, most));
  }
  if (end_together(meeting, step + 1, all) != Outcome::done) return Outcome::ended;
  if (!all) return reduce_scatter_slots(meeting, mine, bytes, into, combine);
  std::ranges::copy(apart, into);
  return Outcome::done;
}

}  // namespace outrigger::intranode
