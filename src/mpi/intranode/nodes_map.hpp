// Which ranks of a communicator share a node. Nodes are numbered in the order of their first ranks, which lead them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace outrigger::mpi {

class NodesMap {
 public:
  // `names`: of each rank's node, any numbers.
  explicit NodesMap(std::span<const std::uint32_t> names);

  [[nodiscard]] std::uint32_t ranks() const { return static_cast<std::uint32_t>(node_of_.size()); }
  [[nodiscard]] std::uint32_t nodes() const { return static_cast<std::uint32_t>(ranks_of_.size()); }
  [[nodiscard]] std::uint32_t node_of(std::uint32_t rank) const { return node_of_[rank]; }
  // Ascending.
  [[nodiscard]] const std::vector<std::uint32_t>& ranks_of(std::uint32_t node) const { return ranks_of_[node]; }
  [[nodiscard]] std::uint32_t size_of(std::uint32_t node) const {
    return static_cast<std::uint32_t>(ranks_of_[node].size());
  }
  // 0, 1, 2 and so on within its node.
  [[nodiscard]] std::uint32_t local_of(std::uint32_t rank) const { return local_of_[rank]; }
  // Ranks of the largest node.
  [[nodiscard]] std::uint32_t largest() const { return largest_; }

  // Places of ranks if they are sorted by node: first the ranks of node 0, then those of node 1 ...
  [[nodiscard]] std::uint32_t first_place_of(std::uint32_t node) const { return first_place_of_[node]; }
  [[nodiscard]] std::uint32_t place_of(std::uint32_t rank) const {
    return first_place_of_[node_of_[rank]] + local_of_[rank];
  }
  // They are sorted so.
  [[nodiscard]] bool is_sorted() const { return sorted_; }

 private:
  std::vector<std::uint32_t> node_of_;
  std::vector<std::uint32_t> local_of_;
  std::vector<std::vector<std::uint32_t>> ranks_of_;
  std::vector<std::uint32_t> first_place_of_;
  std::uint32_t largest_ = 0;
  bool sorted_ = true;
};

}  // namespace outrigger::mpi
