// binomial: a tree in which each rank that has the buffer sends it to one that has not, round by round.
//
// Source: Thakur et al. 2005 (alltoall_pairwise.cpp), section 4.4; MPICH,
// src/mpi/coll/ibcast/ibcast_intra_sched_binomial.c; Open MPI, ompi_coll_base_bcast_intra_binomial.
//
//     ranks counted from the root: 0 -> 4, 2, 1    4 -> 6, 5    2 -> 3    6 -> 7
//
// log2 p (latency + bytes / bandwidth).
#include "sim/baselines/baselines.hpp"

namespace outrigger::sim::baselines {

Task bcast_binomial(Member& member, std::uint64_t bytes, std::uint32_t root) {
  const std::uint32_t size = member.size();
  const std::uint32_t from_root = (member.rank() + size - root) % size;
  std::uint32_t distance = 1;
  while (distance < size && (from_root & distance) == 0) distance *= 2;
  if (from_root != 0) {
    engine::Countdown received(member.scheduler(), 1);
    member.receive((member.rank() + size - distance) % size, bytes, 0, received);
    co_await received.done();
  }
  for (distance /= 2; distance != 0; distance /= 2) {
    if (from_root + distance >= size) continue;
    engine::Countdown sent(member.scheduler(), 1);
    member.send((member.rank() + distance) % size, bytes, 0, sent);
    co_await sent.done();
  }
}

}  // namespace outrigger::sim::baselines
