// branches: leaders combine the contributions of their branches, exchange the results, and combine these.
//
// Source: the hierarchical allreduce of Open MPI's coll/xhc ("A framework for hierarchical single-copy MPI collectives
// on multicore nodes", Katevenis et al., CLUSTER 2022), two levels, with every leader as root of the upper one.
//
// Source and code (-: ours):
//     a member publishes its contribution                 | `put`, `arrive`
//     its leader reduces the contributions                | `combine_branch`
//     leaders reduce the results of their branches        | `publish`, `combine_all`
//     - each of them does: nothing goes back              | `combine_all`
//     - branches are subtrees of one order, so a result   | split_sum.hpp `SplitSum`
//       has the same bits as without branches             |
//     the result goes down                                | `wait_answer`, `copy_out`
//
// Picture (branches 0 1 and 2 3, steps s and s+1):
//
//     slot s of 1: | 1 | ──▶ slot s of 0: | 0 op 1 | ──▶ 2, and slot s+1 of 0: | result | ──▶ 1
//     slot s of 3: | 3 | ──▶ slot s of 2: | 2 op 3 | ──▶ 0, and slot s+1 of 2: | result | ──▶ 3
//
// Team of p in branches of g, n bytes:
//     cost    n copied in and out by each member; a leader combines n (g - 1 + p / g - 1) and loads the lines of so
//             many slots, the others those of one; three cache misses one after the other. allreduce_slots.cpp combines
//             n (p - 1), after one
//     bounds  vectors up to kShortBytes
#include "intranode/algorithms.hpp"
#include "intranode/tree_sum.hpp"

namespace outrigger::intranode {

Outcome allreduce_branches(Meeting& meeting, const SplitSum& split, std::span<const std::byte> mine, std::byte* into,
                           const OrderCombine& combine) {
  const std::uint64_t step = meeting.begin();
  meeting.extend(1);
  TreeSum sum(meeting, combine, split, mine.size());
  const std::uint32_t leader = split.branches.leader(split.branches.of(meeting.rank()));
  if (!sum.wait_vector(step)) return Outcome::ended;
  if (meeting.rank() != leader) {
    sum.put(step, mine);
    meeting.arrive(step);
    if (!meeting.wait_answer(leader, step + 1)) return Outcome::ended;
    meeting.all_arrived();
    copy_out({into, mine.size()}, sum.vector(leader, step + 1));
    sum.read_answer(leader, step + 1);
  } else {
    std::byte* const own = sum.vector(leader, step);
    if (!sum.combine_branch(step, mine.data(), own)) return Outcome::ended;
    sum.publish(step);
    if (!sum.combine_all(step, own, into)) return Outcome::ended;
    // All have arrived in `step`, so they have read what was there.
    sum.put(step + 1, {into, mine.size()});
    sum.publish(step + 1);
  }
  meeting.end();
  return Outcome::done;
}

}  // namespace outrigger::intranode
