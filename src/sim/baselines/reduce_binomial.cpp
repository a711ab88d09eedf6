// binomial: the broadcast's tree the other way; each adds what its children have and hands the sum on.
//
// Source: Thakur et al. 2005 (alltoall_pairwise.cpp), section 4.6; MPICH,
// src/mpi/coll/ireduce/ireduce_intra_sched_binomial.c; Open MPI, ompi_coll_base_reduce_intra_binomial.
//
// log2 p (latency + bytes / bandwidth + bytes / reduction rate).
#include "sim/baselines/baselines.hpp"

namespace outrigger::sim::baselines {

Task reduce_binomial(Member& member, std::uint64_t bytes, std::uint32_t root) {
  const std::uint32_t size = member.size();
  const std::uint32_t from_root = (member.rank() + size - root) % size;
  member.copy(bytes);  // what is contributed, to where the sum goes
  std::uint32_t distance = 1;
  for (; distance < size && (from_root & distance) == 0; distance *= 2) {
    if (from_root + distance >= size) continue;
    engine::Countdown received(member.scheduler(), 1);
    member.receive((member.rank() + distance) % size, bytes, 0, received);
    co_await received.done();
    member.reduce(bytes);
  }
  if (from_root == 0) co_return;
  engine::Countdown sent(member.scheduler(), 1);
  member.send((member.rank() + size - distance) % size, bytes, 0, sent);
  co_await sent.done();
}

}  // namespace outrigger::sim::baselines
