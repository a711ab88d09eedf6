// flat: every member raises its flag and waits for those of all others.
//
// Source: the barrier of shared-memory collectives in Open MPI's coll/xhc and MPICH's release-gather is a tree; within
// a cache, one level of it is enough for few members.
//
// Source and code (-: ours):
//     gather: a member says that it has arrived       | `arrive_without_slot`
//     release: it goes on when all have               | `wait_all_arrived`
//     - every member is its own root: no release flag | `begin`
//
// Picture (3 members, step s; each line is a flag in its owner's cache line):
//
//     0: arrived = s ──┬──▶ 1, 2
//     1: arrived = s ──┼──▶ 0, 2
//     2: arrived = s ──┘──▶ 0, 1
//
// Team of p:
//     cost    one store, p - 1 loads of lines that others have written: one cache miss each
//     bounds  no memory; the loads of a member grow with p, so trees are better beyond about 8 members
#include "intranode/algorithms.hpp"

namespace outrigger::intranode {

Outcome barrier_flat(Meeting& meeting) {
  const std::uint64_t step = meeting.begin();
  meeting.arrive_without_slot(step);
  if (!meeting.wait_all_arrived(step)) return Outcome::ended;
  meeting.all_left(step);
  return Outcome::done;
}

}  // namespace outrigger::intranode
