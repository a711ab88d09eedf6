// branches: leaders combine the contributions of their branches; the root combines the results.
//
// Source: MPICH's release-gather ("Framework for Scalable Intra-node Collective Operations using Shared Memory", Jain
// et al., SC 2018), gather step with reduction, with the levels of Open MPI's coll/xhc.
//
// Source and code (-: ours):
//     a child copies its contribution into its cell when   | `wait_vector`, `put`
//        it is free                                        |
//     it tells its parent                                  | `arrive`, `publish`
//     the parent reduces the contributions of its children | `combine_branch`, `combine_all`
//     - the root leads its branch: no step down from a     | `leader`
//       leader                                             |
//     - branches are subtrees of one order, so the result  | split_sum.hpp `SplitSum`
//       has the same bits as without branches              |
//     it tells that the cells are free                     | `end`
//
// Picture (branches 0 1 and 2 3, root 1, step s):
//
//     slot of 0: | 0 | ──▶ 1: 0 op 1 ──────────┬──▶ result
//     slot of 3: | 3 | ──▶ slot of 2: | 2 op 3 | ──▶ 1
//
// Team of p in branches of g, n bytes:
//     cost    the root combines n (g - 1 + p / g - 1) and loads the lines of so many slots, a leader those of g - 1;
//     two
//             cache misses one after the other. reduce_slots.cpp combines n (p - 1), after one
//     bounds  vectors up to kShortBytes; a member is kArrivals calls ahead of the slowest one at most
#include "intranode/algorithms.hpp"
#include "intranode/tree_sum.hpp"

namespace outrigger::intranode {

Outcome reduce_branches(Meeting& meeting, const SplitSum& split, std::span<const std::byte> mine, std::byte* into,
                        const OrderCombine& combine, std::uint32_t root) {
  const std::uint64_t step = meeting.begin();
  TreeSum sum(meeting, combine, split, mine.size());
  const std::uint32_t leader = split.branches.leader(split.branches.of(meeting.rank()), root);
  if (meeting.rank() == root) {
    if (!sum.combine_branch(step, mine.data(), into) || !sum.combine_all(step, into, into)) return Outcome::ended;
  } else {
    if (!sum.wait_vector(step)) return Outcome::ended;
    if (meeting.rank() != leader) {
      sum.put(step, mine);
      meeting.arrive(step);
    } else {
      if (!sum.combine_branch(step, mine.data(), sum.vector(leader, step))) return Outcome::ended;
      sum.publish(step);
    }
  }
  meeting.end();
  return Outcome::done;
}

}  // namespace outrigger::intranode
