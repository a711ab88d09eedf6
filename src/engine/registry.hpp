// Algorithms by number: the coroutine that runs one local rank's part of an operation.
#pragma once

#include <cstddef>
#include <map>

#include "engine/core/task.hpp"
#include "protocol/collective.hpp"

namespace outrigger::engine {

class LocalRank;
class Operation;

using AlgorithmFunction = Task (*)(Operation& operation, LocalRank& rank);

// Filled before an engine uses it, then constant. Must outlive its engines.
class Registry {
 public:
  // Adds or replaces a function. False if it replaced another one.
  bool add(Collective collective, Algorithm algorithm, AlgorithmFunction function);

  // nullptr if there is none.
  [[nodiscard]] AlgorithmFunction find(Collective collective, Algorithm algorithm) const;

 private:
  struct Key {
    Collective collective;
    Algorithm algorithm;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, AlgorithmFunction> functions_;
};

// Compile-time checks of the algorithm tables. Each returns the index of the first wrong row, or the table's size. Rows
// of `built_in` have a `collective` and an `algorithm`.

// First row of `built_in` whose algorithm has no name or is unknown to its collective.
template <class BuiltIn>
[[nodiscard]] constexpr std::size_t first_unnamed(const BuiltIn& built_in) {
  std::size_t row = 0;
  for (; row < built_in.size(); ++row) {
    const bool named = index_of(built_in[row].algorithm) < kAlgorithms.size();
    if (!named || !has_algorithm(built_in[row].collective, built_in[row].algorithm)) break;
  }
  return row;
}

// First row of kCollectives with an algorithm that is not built in.
template <class BuiltIn>
[[nodiscard]] constexpr std::size_t first_unlisted(const BuiltIn& built_in) {
  std::size_t row = 0;
  for (; row < kCollectives.size(); ++row) {
    for (const Algorithm algorithm : kCollectives[row].algorithms) {
      bool listed = false;
      for (const auto& each : built_in) {
        listed = listed || (each.collective == kCollectives[row].collective && each.algorithm == algorithm);
      }
      if (!listed) return row;
    }
  }
  return row;
}

// First row of `algorithms` that no collective has.
template <class Algorithms, class Collectives>
[[nodiscard]] constexpr std::size_t first_unserved(const Algorithms& algorithms, const Collectives& collectives) {
  std::size_t row = 0;
  for (; row < algorithms.size(); ++row) {
    bool served = false;
    for (const auto& collective : collectives) {
      for (const Algorithm known : collective.algorithms) served = served || known == algorithms[row].algorithm;
    }
    if (!served) return row;
  }
  return row;
}

// All algorithms of the library.
[[nodiscard]] const Registry& built_in_algorithms();

// Each is in a file of its own name.
Task alltoall_ring_pull(Operation& operation, LocalRank& rank);
Task alltoall_scatter_dest(Operation& operation, LocalRank& rank);
Task allgather_flat(Operation& operation, LocalRank& rank);
Task allgather_node_pull(Operation& operation, LocalRank& rank);
Task allgather_hierarchical(Operation& operation, LocalRank& rank);
Task bcast_flat(Operation& operation, LocalRank& rank);
Task bcast_hierarchical(Operation& operation, LocalRank& rank);
Task allreduce_sliced_pull(Operation& operation, LocalRank& rank);
Task allreduce_rooted(Operation& operation, LocalRank& rank);
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
