// binomial: sums go up a tree to rank 0, and the result comes down it.
//
// Source: Open MPI, ompi/mca/coll/libnbc/nbc_iallreduce.c (allred_sched_diss), used for nonblocking calls of few ranks
// or few bytes.
//
//   1 -> 0, 3 -> 2, then 2 -> 0; 0 -> 2, then 0 -> 1, 2 -> 3
//
// 2 log2 p (latency + bytes / bandwidth) + log2 p bytes / reduction rate; 2 (p - 1) messages.
#include "sim/baselines/baselines.hpp"
#include "sim/baselines/binomial_tree.hpp"

namespace outrigger::sim::baselines {

Task allreduce_binomial(Member& member, std::uint64_t bytes, std::uint32_t /*root*/) {
  const BinomialTree tree(member.rank(), member.size(), 0);
  member.copy(bytes);  // contribution into result buffer
  for (std::uint32_t distance = 1; distance < tree.to_parent(); distance *= 2) {
    if (!tree.has_child(distance)) continue;
    engine::Countdown summed(member.scheduler(), 1);
    member.receive(tree.child(distance), bytes, 0, summed);
    co_await summed.done();
    member.reduce(bytes);
  }
  if (!tree.is_root()) {
    engine::Countdown up_and_down(member.scheduler(), 2);
    member.send(tree.parent(), bytes, 0, up_and_down);
    member.receive(tree.parent(), bytes, 0, up_and_down);
    co_await up_and_down.done();
  }
  for (std::uint32_t distance = tree.to_parent() / 2; distance != 0; distance /= 2) {
    if (!tree.has_child(distance)) continue;
    engine::Countdown sent(member.scheduler(), 1);
    member.send(tree.child(distance), bytes, 0, sent);
    co_await sent.done();
  }
}

}  // namespace outrigger::sim::baselines
