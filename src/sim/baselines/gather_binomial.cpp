// binomial: the broadcast's tree upwards; each rank passes on the blocks of its subtree.
//
// Source: MPICH, src/mpi/coll/igather/igather_intra_sched_binomial.c; Open MPI, ompi_coll_base_gather_intra_binomial.
//
// log2 p latencies, (p - 1) bytes / bandwidth into the root.
#include "sim/baselines/baselines.hpp"
#include "sim/baselines/binomial_tree.hpp"

namespace outrigger::sim::baselines {

Task gather_binomial(Member& member, std::uint64_t bytes, std::uint32_t root) {
  const BinomialTree tree(member.rank(), member.size(), root);
  member.copy(bytes);  // own block
  for (std::uint32_t distance = 1; distance < tree.to_parent(); distance *= 2) {
    if (!tree.has_child(distance)) continue;
    engine::Countdown received(member.scheduler(), 1);
    member.receive(tree.child(distance), tree.ranks_of_child(distance) * bytes, 0, received);
    co_await received.done();
  }
  if (tree.is_root()) co_return;
  engine::Countdown sent(member.scheduler(), 1);
  member.send(tree.parent(), tree.ranks() * bytes, 0, sent);
  co_await sent.done();
}

}  // namespace outrigger::sim::baselines
