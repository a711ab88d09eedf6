#include "engine/registry.hpp"

namespace outrigger::engine {

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
    for (const Collective collective : {Collective::ialltoall, Collective::ialltoallv, Collective::ialltoallw}) {
      built_in.add(collective, Algorithm::ring_pull, alltoall_ring_pull);
      built_in.add(collective, Algorithm::scatter_dest, alltoall_scatter_dest);
    }
    for (const Collective collective : {Collective::iallgather, Collective::iallgatherv}) {
      built_in.add(collective, Algorithm::flat, allgather_flat);
      built_in.add(collective, Algorithm::node_pull, allgather_node_pull);
      built_in.add(collective, Algorithm::hierarchical, allgather_hierarchical);
    }
    built_in.add(Collective::ibcast, Algorithm::flat, bcast_flat);
    built_in.add(Collective::ibcast, Algorithm::hierarchical, bcast_hierarchical);
    built_in.add(Collective::iallreduce, Algorithm::sliced_pull, allreduce_sliced_pull);
    built_in.add(Collective::ireduce, Algorithm::sliced_pull, reduce_sliced_pull);
    built_in.add(Collective::ireduce_scatter_block, Algorithm::sliced_pull, reduce_scatter_block_sliced_pull);
    built_in.add(Collective::ireduce_scatter, Algorithm::sliced_pull, reduce_scatter_sliced_pull);
    built_in.add(Collective::iscan, Algorithm::chain, scan_chain);
    built_in.add(Collective::iexscan, Algorithm::chain, exscan_chain);
    built_in.add(Collective::igather, Algorithm::ring_pull, gather_ring_pull);
    built_in.add(Collective::igatherv, Algorithm::ring_pull, gather_ring_pull);
    built_in.add(Collective::iscatter, Algorithm::ring_pull, scatter_ring_pull);
    built_in.add(Collective::iscatterv, Algorithm::ring_pull, scatter_ring_pull);
    built_in.add(Collective::ibarrier, Algorithm::tree, barrier_tree);
    for (const CollectiveRow& row : kCollectives) {
      if (is_of_neighbors(row.collective)) built_in.add(row.collective, Algorithm::ring_pull, neighbor_ring_pull);
    }
    return built_in;
  }();
  return registry;
}

}  // namespace outrigger::engine
