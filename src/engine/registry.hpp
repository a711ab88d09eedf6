// Algorithms by number: the coroutine that runs one local rank's part of an operation.
#pragma once

#include <cstdint>
#include <map>

#include "engine/core/task.hpp"
#include "protocol/collective.hpp"

namespace outrigger::engine {

class LocalRank;
class Operation;

using AlgorithmFunction = Task (*)(Operation& operation, LocalRank& rank);

// Filled before an engine uses it, constant from then on. Must outlive the engines that use it.
class Registry {
 public:
  // Adds or replaces. False when the collective already had another function for it (which is then replaced).
  bool add(Collective collective, Algorithm algorithm, AlgorithmFunction function);

  // Null when there is none.
  [[nodiscard]] AlgorithmFunction find(Collective collective, Algorithm algorithm) const;

 private:
  struct Key {
    Collective collective;
    Algorithm algorithm;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, AlgorithmFunction> functions_;
};

// Every algorithm of the library.
[[nodiscard]] const Registry& built_in_algorithms();

// One file each.
Task alltoall_ring_pull(Operation& operation, LocalRank& rank);
Task alltoall_scatter_dest(Operation& operation, LocalRank& rank);
Task allgather_flat(Operation& operation, LocalRank& rank);
Task allgather_node_pull(Operation& operation, LocalRank& rank);
Task allgather_hierarchical(Operation& operation, LocalRank& rank);
Task bcast_flat(Operation& operation, LocalRank& rank);
Task bcast_hierarchical(Operation& operation, LocalRank& rank);
Task allreduce_sliced_pull(Operation& operation, LocalRank& rank);
Task reduce_sliced_pull(Operation& operation, LocalRank& rank);
Task reduce_scatter_block_sliced_pull(Operation& operation, LocalRank& rank);
Task reduce_scatter_sliced_pull(Operation& operation, LocalRank& rank);
Task scan_chain(Operation& operation, LocalRank& rank);
Task exscan_chain(Operation& operation, LocalRank& rank);
Task gather_ring_pull(Operation& operation, LocalRank& rank);
Task scatter_ring_pull(Operation& operation, LocalRank& rank);
Task barrier_tree(Operation& operation, LocalRank& rank);
Task neighbor_ring_pull(Operation& operation, LocalRank& rank);

}  // namespace outrigger::engine
