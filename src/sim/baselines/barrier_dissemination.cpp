// dissemination: in round k a rank sends to rank + 2^k and receives from rank - 2^k.
//
// Source: D. Hensgen, R. Finkel, U. Manber, "Two Algorithms for Barrier Synchronization", 1988; MPICH,
// src/mpi/coll/ibarrier/ibarrier_intra_sched_recursive_doubling.c.
//
// log2 p latencies, rounded up.
#include "sim/baselines/baselines.hpp"

namespace outrigger::sim::baselines {

Task barrier_dissemination(Member& member, std::uint64_t /*bytes*/, std::uint32_t /*root*/) {
  const std::uint32_t size = member.size();
  for (std::uint32_t distance = 1; distance < size; distance *= 2) {
    engine::Countdown both_ways(member.scheduler(), 2);
    member.receive((member.rank() + size - distance) % size, 0, distance, both_ways);
    member.send((member.rank() + distance) % size, 0, distance, both_ways);
    co_await both_ways.done();
  }
}

}  // namespace outrigger::sim::baselines
