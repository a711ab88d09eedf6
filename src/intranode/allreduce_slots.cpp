// slots: every member copies its contribution into its slot, and combines all of them for itself.
//
// Source: the flat case of Open MPI's coll/xhc, with every member as root: it saves the way back.
//
// Source and code (-: ours):
//     a member publishes a chunk of its contribution      | `copy_in`, `arrive`
//     the leader reduces the members' chunks in one pass  | `wait_each_arrived`, `combine_into`
//     - everybody is leader: nothing goes back            | `wait_each_arrived`
//     - a result has the same bits everywhere, as all use | `combine_into`
//       the same tree                                     |
//
// Picture (2 members):
//
//     slot of 0: | 0, chunk s | ──▶ 1: 0 op 1 ▶ result
//     slot of 1: | 1, chunk s | ──▶ 0: 0 op 1 ▶ result
//
// Team of p, n bytes:
//     cost    n copied in and n (p - 1) combined by each
//     bounds  one slot of 32 KiB and step
#include "intranode/algorithms.hpp"
#include "intranode/contributions.hpp"

namespace outrigger::intranode {

Outcome allreduce_slots(Meeting& meeting, std::span<const std::byte> mine, std::byte* into, const Combine& combine) {
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
    const auto add = [&](std::uint32_t other) {
      contributions.add(other, meeting.slot(other, step, own.size()), own.size());
    };
    if (!meeting.wait_each_arrived(step, add)) return Outcome::ended;
    contributions.combine_into({into + done, own.size()}, combine, done);
    meeting.leave(step);
  }
  return Outcome::done;
}

}  // namespace outrigger::intranode
