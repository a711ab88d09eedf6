// binomial: the broadcast's tree the other way; each hands on what its subtree has given.
//
// Source: MPICH, src/mpi/coll/igather/igather_intra_sched_binomial.c; Open MPI,
// ompi_coll_base_gather_intra_binomial.
//
// log2 p latencies, (p - 1) bytes / bandwidth into the root.
#include <algorithm>

#include "sim/baselines/baselines.hpp"

namespace outrigger::sim::baselines {

Task gather_binomial(Member& member, std::uint64_t bytes, std::uint32_t root) {
  const std::uint32_t size = member.size();
  const std::uint32_t from_root = (member.rank() + size - root) % size;
  member.copy(bytes);  // the own block
  std::uint32_t distance = 1;
  for (; distance < size && (from_root & distance) == 0; distance *= 2) {
    const std::uint32_t child = from_root + distance;
    if (child >= size) continue;
    const std::uint64_t blocks = std::min(distance, size - child);
    engine::Countdown received(member.scheduler(), 1);
    member.receive((member.rank() + distance) % size, blocks * bytes, 0, received);
    co_await received.done();
  }
  if (from_root == 0) co_return;
  const std::uint64_t blocks = std::min(distance, size - from_root);
  engine::Countdown sent(member.scheduler(), 1);
  member.send((member.rank() + size - distance) % size, blocks * bytes, 0, sent);
  co_await sent.done();
}

}  // namespace outrigger::sim::baselines
