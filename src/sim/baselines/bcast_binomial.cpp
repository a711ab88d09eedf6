// binomial: a tree in which each rank that has the buffer sends it to one that has not, round by round.
//
// Source: Thakur et al. 2005 (alltoall_pairwise.cpp), section 4.4; MPICH,
// src/mpi/coll/ibcast/ibcast_intra_sched_binomial.c; Open MPI, ompi_coll_base_bcast_intra_binomial.
//
//     ranks counted from the root: 0 -> 4, 2, 1    4 -> 6, 5    2 -> 3    6 -> 7
//
// log2 p (latency + bytes / bandwidth).
#include "sim/baselines/baselines.hpp"
#include "sim/baselines/binomial_tree.hpp"

namespace outrigger::sim::baselines {

Task bcast_binomial(Member& member, std::uint64_t bytes, std::uint32_t root) {
  const BinomialTree tree(member.rank(), member.size(), root);
  if (!tree.is_root()) {
    engine::Countdown received(member.scheduler(), 1);
    member.receive(tree.parent(), bytes, 0, received);
    co_await received.done();
  }
  for (std::uint32_t distance = tree.to_parent() / 2; distance != 0; distance /= 2) {
    if (!tree.has_child(distance)) continue;
    engine::Countdown sent(member.scheduler(), 1);
    member.send(tree.child(distance), bytes, 0, sent);
    co_await sent.done();
  }
}

}  // namespace outrigger::sim::baselines
