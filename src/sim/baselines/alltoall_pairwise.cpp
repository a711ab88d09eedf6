// pairwise: p - 1 rounds, in each of which a rank has one partner to send to and one to receive from.
//
// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", 2005,
// section 4.3; MPICH, src/mpi/coll/ialltoall/ialltoall_intra_sched_pairwise.c; Open MPI,
// ompi_coll_base_alltoall_intra_pairwise.
//
//     round i:  rank + i  <--  rank  <--  rank - i        (with 2^n ranks both are rank XOR i)
//
// (p - 1) (latency + bytes / bandwidth).
#include <bit>

#include "sim/baselines/baselines.hpp"

namespace outrigger::sim::baselines {

Task alltoall_pairwise(Member& member, std::uint64_t bytes, std::uint32_t /*root*/) {
  const std::uint32_t size = member.size();
  member.copy(member.bytes_to(member.rank(), bytes));  // own block
  for (std::uint32_t round = 1; round < size; ++round) {
    const bool exchange = std::has_single_bit(size);
    const std::uint32_t to = exchange ? member.rank() ^ round : (member.rank() + round) % size;
    const std::uint32_t from = exchange ? to : (member.rank() + size - round) % size;
    engine::Countdown both_ways(member.scheduler(), 2);
    member.receive(from, member.bytes_from(from, bytes), round, both_ways);
    member.send(to, member.bytes_to(to, bytes), round, both_ways);
    co_await both_ways.done();
  }
}

}  // namespace outrigger::sim::baselines
