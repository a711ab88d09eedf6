// binomial: the blocks of a whole subtree go to its first rank, which hands on what is not its own.
//
// Source: MPICH, src/mpi/coll/iscatter/iscatter_intra_sched_binomial.c; Open MPI,
// ompi_coll_base_scatter_intra_binomial.
//
// log2 p latencies, (p - 1) bytes / bandwidth out of the root.
#include <algorithm>

#include "sim/baselines/baselines.hpp"

namespace outrigger::sim::baselines {

Task scatter_binomial(Member& member, std::uint64_t bytes, std::uint32_t root) {
  const std::uint32_t size = member.size();
  const std::uint32_t from_root = (member.rank() + size - root) % size;
  std::uint32_t distance = 1;
  while (distance < size && (from_root & distance) == 0) distance *= 2;
  if (from_root != 0) {
    const std::uint64_t blocks = std::min(distance, size - from_root);
    engine::Countdown received(member.scheduler(), 1);
    member.receive((member.rank() + size - distance) % size, blocks * bytes, 0, received);
    co_await received.done();
  }
  for (distance /= 2; distance != 0; distance /= 2) {
    const std::uint32_t child = from_root + distance;
    if (child >= size) continue;
    const std::uint64_t blocks = std::min(distance, size - child);
    engine::Countdown sent(member.scheduler(), 1);
    member.send((member.rank() + distance) % size, blocks * bytes, 0, sent);
    co_await sent.done();
  }
  member.copy(bytes);  // the own block
}

}  // namespace outrigger::sim::baselines
