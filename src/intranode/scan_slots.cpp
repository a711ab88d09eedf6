// slots: every member copies its contribution into its slot, and combines those of the members up to itself.
//
// Source: the linear prefix of MPI implementations, without its chain: all contributions are in sight at once.
//
// Source and code (-: ours):
//     a member passes its contribution on            | `copy_in`, `arrive`
//     it combines it with those of the members below | `wait_arrived`, `combine_into`
//     - none waits for a result of the one below     | `below`
//
// Picture (3 members):
//
//     slot of 0: | 0 | ──▶ 1: 0 op 1      ──▶ 2: 0 op 1 op 2
//     slot of 1: | 1 | ─────────────────────▶
//
// Team of p, n bytes:
//     cost    n copied in by each, n i combined by member i
//     bounds  one slot of 32 KiB and step
#include "intranode/algorithms.hpp"
#include "intranode/contributions.hpp"

namespace outrigger::intranode {

Outcome scan_slots(Meeting& meeting, std::span<const std::byte> mine, std::byte* into, const Combine& combine,
                   bool with_own) {
  if (mine.empty()) return Outcome::done;
  const std::size_t most = slot_elements(combine);
  std::uint64_t step = meeting.begin();
  meeting.extend(steps_of(mine.size(), most) - 1);
  for (std::uint64_t done = 0; done < mine.size(); done += most, ++step) {
    const std::span<const std::byte> own = piece_of(mine, done, most);
    if (!meeting.wait_slot(step, own.size())) return Outcome::ended;
    meeting.copy_in(meeting.own_slot(step, own.size()), own);
    meeting.arrive(step);
    Contributions contributions(meeting.rank(), own.data());
    for (std::uint32_t below = meeting.rank(); below-- > 0;) {
      if (!meeting.wait_arrived(below, step)) return Outcome::ended;
      contributions.add(below, meeting.slot(below, step, own.size()), own.size());
    }
    if (with_own || meeting.rank() > 0) contributions.combine_into({into + done, own.size()}, combine, done);
    meeting.leave(step);
  }
  return Outcome::done;
}

}  // namespace outrigger::intranode
