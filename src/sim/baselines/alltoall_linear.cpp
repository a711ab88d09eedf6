// linear: all sends and receives at once; partners in order from the next rank on.
//
// Source: MPICH, src/mpi/coll/ialltoall/ialltoall_intra_sched_permuted_sendrecv.c (at most MPIR_CVAR_ALLTOALL_THROTTLE
// at a time, 32 by default); Open MPI, libnbc's linear schedule.
//
// One round of p - 1 messages each way.
#include "sim/baselines/baselines.hpp"

namespace outrigger::sim::baselines {
namespace {

constexpr std::uint32_t kThrottle = 32;  // MPIR_CVAR_ALLTOALL_THROTTLE

}  // namespace

Task alltoall_linear(Member& member, std::uint64_t bytes, std::uint32_t /*root*/) {
  const std::uint32_t size = member.size();
  member.copy(member.bytes_to(member.rank(), bytes));  // own block
  for (std::uint32_t first = 1; first < size; first += kThrottle) {
    const std::uint32_t end = first + kThrottle < size ? first + kThrottle : size;
    engine::Countdown both_ways(member.scheduler(), 2 * (end - first));
    for (std::uint32_t step = first; step < end; ++step) {
      const std::uint32_t from = (member.rank() + step) % size;
      member.receive(from, member.bytes_from(from, bytes), 0, both_ways);
    }
    for (std::uint32_t step = first; step < end; ++step) {
      const std::uint32_t to = (member.rank() + size - step) % size;
      member.send(to, member.bytes_to(to, bytes), 0, both_ways);
    }
    co_await both_ways.done();
  }
}

}  // namespace outrigger::sim::baselines
