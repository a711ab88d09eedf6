// slots: every member copies its contribution into its slots; the root combines them in one pass over all slots.
//
// Source: MPICH's release-gather ("Framework for Scalable Intra-node Collective Operations using Shared Memory", Jain
// et al., SC 2018), gather step with reduction.
//
// Source and code (-: ours):
//     a child copies a chunk into its cell when it is free | `wait_slot_for`, `copy_in`
//     it tells its parent                                  | `arrive`
//     the parent reduces the chunks of its children        | `wait_each_arrived`, `combine_into`
//     it tells that the cells are free                     | `leave`
//     - in the order of the tree that the caller gives     | `combine_into`
//
// Picture (root 0):
//
//     slots of 1: | 1, chunk s | ──┐
//     slots of 2: | 2, chunk s | ──┴─▶ 0: own chunk s op 1 op 2 ▶ result
//
// Team of p, n bytes:
//     cost    n copied in by each, n (p - 1) combined by the root
//     bounds  two slots; a member is at most two chunks ahead of the root, or kArrivals calls of short vectors
#include "intranode/algorithms.hpp"
#include "intranode/contributions.hpp"

namespace outrigger::intranode {

Outcome reduce_slots(Meeting& meeting, std::span<const std::byte> mine, std::byte* into, const Combine& combine,
                     std::uint32_t root) {
  const std::size_t most = slot_elements(combine);
  std::uint64_t step = meeting.begin();
  meeting.extend(steps_of(mine.size(), most) - 1);
  for (std::uint64_t done = 0; done < mine.size(); done += most, ++step) {
    const std::span<const std::byte> own = piece_of(mine, done, most);
    if (meeting.rank() != root) {
      if (!meeting.wait_slot_for(root, step, own.size())) return Outcome::ended;
      meeting.copy_in(meeting.own_slot(step, own.size()), own);
      meeting.arrive(step);
      continue;
    }
    Contributions contributions(root, own.data());
    const auto add = [&](std::uint32_t other) {
      contributions.add(other, meeting.slot(other, step, own.size()), own.size());
    };
    if (!meeting.wait_each_arrived(step, add)) return Outcome::ended;
    contributions.combine_into({into + done, own.size()}, combine, done);
    meeting.leave(step);
  }
  meeting.end();
  return Outcome::done;
}

}  // namespace outrigger::intranode
