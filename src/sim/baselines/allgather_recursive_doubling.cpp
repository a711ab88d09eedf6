// recursive_doubling: in round k ranks that are 2^k apart exchange all they have. For 2^n ranks.
//
// Source: Thakur et al. 2005 (alltoall_pairwise.cpp), section 4.1; MPICH,
// src/mpi/coll/iallgather/iallgather_intra_sched_recursive_doubling.c; Open MPI,
// ompi_coll_base_allgather_intra_recursivedoubling.
//
//     round 0: 0-1 2-3 4-5 6-7     round 1: 0-2 1-3 4-6 5-7     round 2: 0-4 1-5 2-6 3-7
//
// log2 p latencies, (p - 1) bytes / bandwidth.
#include "sim/baselines/baselines.hpp"

namespace outrigger::sim::baselines {

Task allgather_recursive_doubling(Member& member, std::uint64_t bytes, std::uint32_t /*root*/) {
  member.copy(bytes);  // own block
  for (std::uint32_t distance = 1; distance < member.size(); distance *= 2) {
    const std::uint32_t partner = member.rank() ^ distance;
    engine::Countdown both_ways(member.scheduler(), 2);
    member.receive(partner, bytes * distance, distance, both_ways);
    member.send(partner, bytes * distance, distance, both_ways);
    co_await both_ways.done();
  }
}

}  // namespace outrigger::sim::baselines
