// linear: a receive from and a send to each neighbor, all at once.
//
// Source: MPICH, src/mpi/coll/ineighbor_alltoall/ineighbor_alltoall_allcomm_sched_linear.c (and the other forms'); Open
// MPI, libnbc's nbc_ineighbor_alltoall.c.
//
// One round of as many messages each way as a rank has neighbors.
#include "sim/baselines/baselines.hpp"

namespace outrigger::sim::baselines {

Task neighbor_linear(Member& member, std::uint64_t bytes, std::uint32_t /*root*/) {
  const auto neighbors = static_cast<std::uint32_t>(member.neighbors().size());
  engine::Countdown both_ways(member.scheduler(), 2 * neighbors);
  for (const GroupRank neighbor : member.neighbors()) member.receive(neighbor.value(), bytes, 0, both_ways);
  for (const GroupRank neighbor : member.neighbors()) member.send(neighbor.value(), bytes, 0, both_ways);
  co_await both_ways.done();
}

}  // namespace outrigger::sim::baselines
