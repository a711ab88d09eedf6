// binomial: the blocks of a whole subtree go to its first rank, which sends on those of the others.
//
// Source: MPICH, src/mpi/coll/iscatter/iscatter_intra_sched_binomial.c; Open MPI,
// ompi_coll_base_scatter_intra_binomial.
//
// log2 p latencies, (p - 1) bytes / bandwidth out of the root.
#include "sim/baselines/baselines.hpp"
#include "sim/baselines/binomial_tree.hpp"

namespace outrigger::sim::baselines {

Task scatter_binomial(Member& member, std::uint64_t bytes, std::uint32_t root) {
  const BinomialTree tree(member.rank(), member.size(), root);
  if (!tree.is_root()) {
    engine::Countdown received(member.scheduler(), 1);
    member.receive(tree.parent(), tree.ranks() * bytes, 0, received);
    co_await received.done();
  }
  for (std::uint32_t distance = tree.to_parent() / 2; distance != 0; distance /= 2) {
    if (!tree.has_child(distance)) continue;
    engine::Countdown sent(member.scheduler(), 1);
    member.send(tree.child(distance), tree.ranks_of_child(distance) * bytes, 0, sent);
    co_await sent.done();
  }
  member.copy(bytes);  // own block
}

}  // namespace outrigger::sim::baselines
