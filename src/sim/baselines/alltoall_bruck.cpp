// bruck: log2 p rounds; round k sends all blocks whose remaining distance has bit k set to the rank 2^k further.
//
// Source: J. Bruck et al., "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems",
// IEEE TPDS 8 (11), 1997; MPICH, src/mpi/coll/ialltoall/ialltoall_intra_sched_brucks.c.
//
//     round 0: blocks 1, 3, 5, 7 to rank + 1     round 1: blocks 2, 3, 6, 7 to rank + 2     round 2: 4 to 7 to rank + 4
//
// log2 p messages of about p/2 blocks, which are packed and unpacked.
#include "sim/baselines/baselines.hpp"

namespace outrigger::sim::baselines {

Task alltoall_bruck(Member& member, std::uint64_t bytes, std::uint32_t /*root*/) {
  const std::uint32_t size = member.size();
  member.copy(bytes * size);  // rotation: block i is for rank + i
  for (std::uint32_t distance = 1; distance < size; distance *= 2) {
    std::uint64_t blocks = 0;
    for (std::uint32_t block = 0; block < size; ++block) blocks += (block & distance) != 0 ? 1 : 0;
    member.copy(blocks * bytes);
    engine::Countdown both_ways(member.scheduler(), 2);
    member.receive((member.rank() + size - distance) % size, blocks * bytes, distance, both_ways);
    member.send((member.rank() + distance) % size, blocks * bytes, distance, both_ways);
    co_await both_ways.done();
    member.copy(blocks * bytes);
  }
  member.copy(bytes * size);  // rotation back
}

}  // namespace outrigger::sim::baselines
