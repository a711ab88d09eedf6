// linear: the root sends to all others; used for few ranks.
//
// Source: Open MPI, ompi/mca/coll/libnbc/nbc_ibcast.c (bcast_sched_linear; up to four ranks).
//
// One round: p - 1 messages of the root, each of the whole buffer.
#include "sim/baselines/baselines.hpp"

namespace outrigger::sim::baselines {

Task bcast_linear(Member& member, std::uint64_t bytes, std::uint32_t root) {
  const std::uint32_t size = member.size();
  if (member.rank() != root) {
    engine::Countdown received(member.scheduler(), 1);
    member.receive(root, bytes, 0, received);
    co_await received.done();
    co_return;
  }
  engine::Countdown sent(member.scheduler(), size - 1);
  for (std::uint32_t step = 1; step < size; ++step) member.send((root + step) % size, bytes, 0, sent);
  co_await sent.done();
}

}  // namespace outrigger::sim::baselines
