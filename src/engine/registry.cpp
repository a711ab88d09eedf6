#include "engine/registry.hpp"

#include <array>

namespace outrigger::engine {
namespace {

struct BuiltIn {
  Collective collective;
  Algorithm algorithm;
  AlgorithmFunction function;
};

constexpr std::array kBuiltIn{
    BuiltIn{Collective::ialltoall, Algorithm::ring_pull, alltoall_ring_pull},
    BuiltIn{Collective::ialltoall, Algorithm::scatter_dest, alltoall_scatter_dest},
    BuiltIn{Collective::ialltoallv, Algorithm::ring_pull, alltoall_ring_pull},
    BuiltIn{Collective::ialltoallv, Algorithm::scatter_dest, alltoall_scatter_dest},
    BuiltIn{Collective::ialltoallw, Algorithm::ring_pull, alltoall_ring_pull},
    BuiltIn{Collective::ialltoallw, Algorithm::scatter_dest, alltoall_scatter_dest},
    BuiltIn{Collective::iallgather, Algorithm::flat, allgather_flat},
    BuiltIn{Collective::iallgather, Algorithm::node_pull, allgather_node_pull},
    BuiltIn{Collective::iallgather, Algorithm::hierarchical, allgather_hierarchical},
    BuiltIn{Collective::iallgatherv, Algorithm::flat, allgather_flat},
    BuiltIn{Collective::iallgatherv, Algorithm::node_pull, allgather_node_pull},
    BuiltIn{Collective::iallgatherv, Algorithm::hierarchical, allgather_hierarchical},
    BuiltIn{Collective::ibcast, Algorithm::flat, bcast_flat},
    BuiltIn{Collective::ibcast, Algorithm::hierarchical, bcast_hierarchical},
    BuiltIn{Collective::iallreduce, Algorithm::sliced_pull, allreduce_sliced_pull},
    BuiltIn{Collective::iallreduce, Algorithm::rooted, allreduce_rooted},
    BuiltIn{Collective::ireduce, Algorithm::sliced_pull, reduce_sliced_pull},
    BuiltIn{Collective::ireduce_scatter_block, Algorithm::sliced_pull, reduce_scatter_block_sliced_pull},
    BuiltIn{Collective::ireduce_scatter, Algorithm::sliced_pull, reduce_scatter_sliced_pull},
    BuiltIn{Collective::iscan, Algorithm::chain, scan_chain},
    BuiltIn{Collective::iexscan, Algorithm::chain, exscan_chain},
    BuiltIn{Collective::igather, Algorithm::ring_pull, gather_ring_pull},
    BuiltIn{Collective::igatherv, Algorithm::ring_pull, gather_ring_pull},
    BuiltIn{Collective::iscatter, Algorithm::ring_pull, scatter_ring_pull},
    BuiltIn{Collective::iscatterv, Algorithm::ring_pull, scatter_ring_pull},
    BuiltIn{Collective::ibarrier, Algorithm::tree, barrier_tree},
    BuiltIn{Collective::ineighbor_alltoall, Algorithm::ring_pull, neighbor_ring_pull},
    BuiltIn{Collective::ineighbor_alltoallv, Algorithm::ring_pull, neighbor_ring_pull},
    BuiltIn{Collective::ineighbor_alltoallw, Algorithm::ring_pull, neighbor_ring_pull},
    BuiltIn{Collective::ineighbor_allgather, Algorithm::ring_pull, neighbor_ring_pull},
    BuiltIn{Collective::ineighbor_allgatherv, Algorithm::ring_pull, neighbor_ring_pull},
};

// These checks name the other places where an algorithm must be listed, in protocol/collective.hpp.
static_assert(first_unnamed(kBuiltIn) == kBuiltIn.size(),
              "an algorithm of this table has no row in kAlgorithms or is not in its collective's row of kCollectives: "
              "it could not be named");
static_assert(first_unlisted(kBuiltIn) == kCollectives.size(),
              "a row of kCollectives names an algorithm that is not in this table: it could not run");
static_assert(first_unserved(kAlgorithms, kCollectives) == kAlgorithms.size(),
              "a row of kAlgorithms is in no row of kCollectives: it could be selected but not run");

}  // namespace

bool Registry::add(Collective collective, Algorithm algorithm, AlgorithmFunction function) {
  const Key key{collective, algorithm};
  return functions_.insert_or_assign(key, function).second;
}

AlgorithmFunction Registry::find(Collective collective, Algorithm algorithm) const {
  const auto found = functions_.find(Key{collective, algorithm});
  return found == functions_.end() ? nullptr : found->second;
}

const Registry& built_in_algorithms() {
  static const Registry registry = [] {
    Registry built_in;
    for (const BuiltIn& each : kBuiltIn) built_in.add(each.collective, each.algorithm, each.function);
    return built_in;
  }();
  return registry;
}

}  // namespace outrigger::engine
