// recursive_doubling: in round k, ranks at distance 2^k exchange their whole vectors, and each adds them.
//
// Source: Thakur et al. 2005 (alltoall_pairwise.cpp), section 4.5; MPICH,
// src/mpi/coll/iallreduce/iallreduce_intra_sched_recursive_doubling.c; Open MPI,
// ompi_coll_base_allreduce_intra_recursivedoubling.
//
// log2 p (latency + bytes / bandwidth + bytes / reduction rate).
#include "sim/baselines/baselines.hpp"
#include "sim/baselines/fold.hpp"

namespace outrigger::sim::baselines {

Task allreduce_recursive_doubling(Member& member, std::uint64_t bytes, std::uint32_t /*root*/) {
  const Fold fold(member.rank(), member.size());
  member.copy(bytes);  // contribution into result buffer
  if (fold.is_in_pair()) {
    engine::Countdown folded(member.scheduler(), 1);
    begin_folding(member, fold, bytes, folded);
    co_await folded.done();
    if (fold.goes_on()) member.reduce(bytes);
  }
  for (std::uint32_t distance = 1; fold.goes_on() && distance < fold.left(); distance *= 2) {
    const std::uint32_t partner = fold.rank_of(fold.number() ^ distance);
    engine::Countdown both_ways(member.scheduler(), 2);
    member.receive(partner, bytes, kFirstRound + distance, both_ways);
    member.send(partner, bytes, kFirstRound + distance, both_ways);
    co_await both_ways.done();
    member.reduce(bytes);
  }
  if (fold.is_in_pair()) {
    engine::Countdown unfolded(member.scheduler(), 1);
    begin_unfolding(member, fold, bytes, unfolded);
    co_await unfolded.done();
  }
}

}  // namespace outrigger::sim::baselines
