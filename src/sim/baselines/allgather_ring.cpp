// ring: p - 1 rounds; each block received from the left is sent on to the right.
//
// Source: Thakur et al. 2005 (alltoall_pairwise.cpp), section 4.1; MPICH,
// src/mpi/coll/iallgather/iallgather_intra_sched_ring.c; Open MPI, ompi_coll_base_allgather_intra_ring.
//
// (p - 1) (latency + bytes / bandwidth). With ranks in order on the nodes a node's link carries each block once.
#include "sim/baselines/baselines.hpp"

namespace outrigger::sim::baselines {

Task allgather_ring(Member& member, std::uint64_t bytes, std::uint32_t /*root*/) {
  const std::uint32_t size = member.size();
  member.copy(bytes);  // own block
  for (std::uint32_t round = 1; round < size; ++round) {
    engine::Countdown both_ways(member.scheduler(), 2);
    member.receive((member.rank() + size - 1) % size, bytes, round, both_ways);
    member.send((member.rank() + 1) % size, bytes, round, both_ways);
    co_await both_ways.done();
  }
}

}  // namespace outrigger::sim::baselines
