// branches: the members of a branch tell their leader that they have arrived, leaders tell each other, then the
// branches.
//
// Source: the hierarchical barrier of Open MPI's coll/xhc ("A framework for hierarchical single-copy MPI collectives on
// multicore nodes", Katevenis et al., CLUSTER 2022).
//
// Source and code (-: ours):
//     a member tells its leader                           | `arrive_without_slot`
//     a leader waits for its members                      | `wait_branch`
//     it goes up with the other leaders                   | `wait_leaders`
//     - each leader is the root: they do not wait for one | `wait_leaders`
//     it releases its members                             | `wait_answer`
//
// Picture (branches 0 1 and 2 3, steps s and s+1):
//
//     1: arrived = s ──▶ 0: arrived = s ──┬──▶ 2 ... 0: arrived = s+1 ──▶ 1
//     3: arrived = s ──▶ 2: arrived = s ──┴──▶ 0 ... 2: arrived = s+1 ──▶ 3
//
// Team of p in branches of g:
//     cost    a leader loads g - 1 + p / g - 1 lines that others have written, the others one; three cache misses one
//             after the other. barrier_flat.cpp loads p - 1 at each member, and none has to wait for another
//     bounds  no memory
#include "intranode/algorithms.hpp"
#include "intranode/tree_steps.hpp"

namespace outrigger::intranode {

Outcome barrier_branches(Meeting& meeting, const Branches& branches) {
  const auto nothing = [](std::uint32_t /*other*/) {};
  const std::uint64_t step = meeting.begin();
  meeting.extend(1);
  const std::uint32_t leader = branches.leader(branches.of(meeting.rank()));
  if (meeting.rank() != leader) {
    meeting.arrive_without_slot(step);
    if (!meeting.wait_answer(leader, step + 1)) return Outcome::ended;
  } else {
    if (!wait_branch(meeting, branches, step, nothing)) return Outcome::ended;
    meeting.arrive_without_slot(step);
    if (!wait_leaders(meeting, branches, step, nothing)) return Outcome::ended;
    meeting.arrive_without_slot(step + 1);
  }
  meeting.all_left(step + 1);
  return Outcome::done;
}

}  // namespace outrigger::intranode
