// linear: each sends its block to all others at once, and receives theirs.
//
// Source: Open MPI, ompi/mca/coll/libnbc/nbc_iallgather.c (allgather_sched_linear).
//
// One round of p - 1 messages each way.
#include "sim/baselines/baselines.hpp"

namespace outrigger::sim::baselines {

Task allgather_linear(Member& member, std::uint64_t bytes, std::uint32_t /*root*/) {
  const std::uint32_t size = member.size();
  member.copy(bytes);
  engine::Countdown both_ways(member.scheduler(), 2 * (size - 1));
  for (std::uint32_t step = 1; step < size; ++step) {
    member.receive((member.rank() + step) % size, bytes, 0, both_ways);
    member.send((member.rank() + size - step) % size, bytes, 0, both_ways);
  }
  co_await both_ways.done();
}

}  // namespace outrigger::sim::baselines
