// scatter_allgather: the buffer is scattered down a binomial tree, a p-th for each rank, and gathered again in a ring.
//
// Source: Thakur et al. 2005 (alltoall_pairwise.cpp), section 4.4 (van de Geijn's algorithm); MPICH,
// src/mpi/coll/ibcast/ibcast_intra_sched_scatter_ring_allgather.c; Open MPI,
// ompi_coll_base_bcast_intra_scatter_allgather_ring.
//
// log2 p + p - 1 latencies, 2 (p - 1)/p bytes / bandwidth.
#include <algorithm>

#include "sim/baselines/baselines.hpp"
#include "sim/baselines/binomial_tree.hpp"

namespace outrigger::sim::baselines {
namespace {

// Bytes of the shares of ranks from `first` up to `end`, counted from the root. The last shares may be shorter or
// empty.
std::uint64_t bytes_of_shares(std::uint64_t bytes, std::uint32_t size, std::uint64_t first, std::uint64_t end) {
  const std::uint64_t share = (bytes + size - 1) / size;
  return std::min(bytes, share * end) - std::min(bytes, share * first);
}

}  // namespace

Task bcast_scatter_allgather(Member& member, std::uint64_t bytes, std::uint32_t root) {
  const std::uint32_t size = member.size();
  const BinomialTree tree(member.rank(), size, root);
  const std::uint32_t from_root = tree.from_root();
  if (!tree.is_root()) {  // shares of the whole subtree
    engine::Countdown received(member.scheduler(), 1);
    member.receive(tree.parent(), bytes_of_shares(bytes, size, from_root, from_root + tree.ranks()), 0, received);
    co_await received.done();
  }
  for (std::uint32_t distance = tree.to_parent() / 2; distance != 0; distance /= 2) {
    if (!tree.has_child(distance)) continue;
    const std::uint32_t child = from_root + distance;
    engine::Countdown sent(member.scheduler(), 1);
    member.send(tree.child(distance), bytes_of_shares(bytes, size, child, child + tree.ranks_of_child(distance)), 0,
                sent);
    co_await sent.done();
  }
  for (std::uint32_t round = 1; round < size; ++round) {
    const std::uint32_t sends = (from_root + size - (round - 1)) % size;
    const std::uint32_t receives = (from_root + size - round) % size;
    engine::Countdown both_ways(member.scheduler(), 2);
    member.receive((member.rank() + size - 1) % size, bytes_of_shares(bytes, size, receives, receives + 1), round,
                   both_ways);
    member.send((member.rank() + 1) % size, bytes_of_shares(bytes, size, sends, sends + 1), round, both_ways);
    co_await both_ways.done();
  }
}

}  // namespace outrigger::sim::baselines
