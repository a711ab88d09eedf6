// rabenseifner: a reduce-scatter by halves, then an allgather by doubles.
//
// Source: R. Rabenseifner, "Optimization of Collective Reduction Operations", ICCS 2004; Thakur et al. 2005
// (alltoall_pairwise.cpp), section 4.5; MPICH,
// src/mpi/coll/iallreduce/iallreduce_intra_sched_reduce_scatter_allgather.c; Open MPI,
// ompi_coll_base_allreduce_intra_redscat_allgather.
//
//     distance  p/2: half of the vector each way, add     ...     1: a p-th     then the same back, without adding
//
// 2 log2 p latencies, 2 (p - 1)/p bytes / bandwidth, (p - 1)/p bytes / reduction rate.
#include "sim/baselines/baselines.hpp"
#include "sim/baselines/fold.hpp"

namespace outrigger::sim::baselines {

Task allreduce_rabenseifner(Member& member, std::uint64_t bytes, std::uint32_t /*root*/) {
  const Fold fold(member.rank(), member.size());
  member.copy(bytes);  // contribution into result buffer
  if (fold.is_in_pair()) {
    engine::Countdown folded(member.scheduler(), 1);
    begin_folding(member, fold, bytes, folded);
    co_await folded.done();
    if (fold.goes_on()) member.reduce(bytes);
  }
  std::uint32_t tag = kFirstRound;
  std::uint64_t part = bytes;
  for (std::uint32_t distance = fold.left() / 2; fold.goes_on() && distance != 0; distance /= 2) {
    part /= 2;
    const std::uint32_t partner = fold.rank_of(fold.number() ^ distance);
    engine::Countdown both_ways(member.scheduler(), 2);
    member.receive(partner, part, tag, both_ways);
    member.send(partner, part, tag, both_ways);
    co_await both_ways.done();
    member.reduce(part);
    ++tag;
  }
  for (std::uint32_t distance = 1; fold.goes_on() && distance < fold.left(); distance *= 2) {
    const std::uint32_t partner = fold.rank_of(fold.number() ^ distance);
    engine::Countdown both_ways(member.scheduler(), 2);
    member.receive(partner, part, tag, both_ways);
    member.send(partner, part, tag, both_ways);
    co_await both_ways.done();
    part *= 2;
    ++tag;
  }
  if (fold.is_in_pair()) {
    engine::Countdown unfolded(member.scheduler(), 1);
    begin_unfolding(member, fold, bytes, unfolded);
    co_await unfolded.done();
  }
}

}  // namespace outrigger::sim::baselines
