// binomial: the broadcast's tree upwards; each rank adds its children's sums and sends on the result.
//
// Source: Thakur et al. 2005 (alltoall_pairwise.cpp), section 4.6; MPICH,
// src/mpi/coll/ireduce/ireduce_intra_sched_binomial.c; Open MPI, ompi_coll_base_reduce_intra_binomial.
//
// log2 p (latency + bytes / bandwidth + bytes / reduction rate).
#include "sim/baselines/baselines.hpp"
#include "sim/baselines/binomial_tree.hpp"

namespace outrigger::sim::baselines {

Task reduce_binomial(Member& member, std::uint64_t bytes, std::uint32_t root) {
  const BinomialTree tree(member.rank(), member.size(), root);
  member.copy(bytes);  // contribution into sum buffer
  for (std::uint32_t distance = 1; distance < tree.to_parent(); distance *= 2) {
    if (!tree.has_child(distance)) continue;
    engine::Countdown received(member.scheduler(), 1);
    member.receive(tree.child(distance), bytes, 0, received);
    co_await received.done();
    member.reduce(bytes);
  }
  if (tree.is_root()) co_return;
  engine::Countdown sent(member.scheduler(), 1);
  member.send(tree.parent(), bytes, 0, sent);
  co_await sent.done();
}

}  // namespace outrigger::sim::baselines
