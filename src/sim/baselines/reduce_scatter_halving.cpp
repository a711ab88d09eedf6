// recursive_halving: the first half of Rabenseifner's allreduce; each rank ends with its own block.
//
// Source: Thakur et al. 2005 (alltoall_pairwise.cpp), section 4.4; MPICH,
// src/mpi/coll/ireduce_scatter_block/ireduce_scatter_block_intra_sched_recursive_halving.c; Open MPI,
// ompi_coll_base_reduce_scatter_intra_basic_recursivehalving.
//
// log2 p latencies, (p - 1) blocks / bandwidth, (p - 1) blocks / reduction rate.
#include "sim/baselines/baselines.hpp"
#include "sim/baselines/fold.hpp"

namespace outrigger::sim::baselines {

Task reduce_scatter_halving(Member& member, std::uint64_t bytes, std::uint32_t /*root*/) {
  const Fold fold(member.rank(), member.size());
  std::uint64_t part = bytes * member.size();
  member.copy(part);  // contribution into sum buffer
  if (fold.is_in_pair()) {
    engine::Countdown folded(member.scheduler(), 1);
    begin_folding(member, fold, part, folded);
    co_await folded.done();
    if (fold.goes_on()) member.reduce(part);
  }
  std::uint32_t tag = kFirstRound;
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
  if (fold.is_in_pair()) {
    engine::Countdown unfolded(member.scheduler(), 1);
    begin_unfolding(member, fold, bytes, unfolded);
    co_await unfolded.done();
  }
}

}  // namespace outrigger::sim::baselines
