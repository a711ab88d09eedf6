// pairwise: in each of p - 1 rounds a rank receives another rank's contribution to its own block and adds it.
//
// Source: Thakur et al. 2005 (alltoall_pairwise.cpp), section 4.4; MPICH,
// src/mpi/coll/ireduce_scatter_block/ireduce_scatter_block_intra_sched_pairwise.c.
//
// (p - 1) (latency + bytes / bandwidth + bytes / reduction rate), where bytes are those of a block.
#include "sim/baselines/baselines.hpp"

namespace outrigger::sim::baselines {

Task reduce_scatter_pairwise(Member& member, std::uint64_t bytes, std::uint32_t /*root*/) {
  const std::uint32_t size = member.size();
  member.copy(bytes);  // own contribution to own block
  for (std::uint32_t round = 1; round < size; ++round) {
    engine::Countdown both_ways(member.scheduler(), 2);
    member.receive((member.rank() + size - round) % size, bytes, round, both_ways);
    member.send((member.rank() + round) % size, bytes, round, both_ways);
    co_await both_ways.done();
    member.reduce(bytes);
  }
}

}  // namespace outrigger::sim::baselines
