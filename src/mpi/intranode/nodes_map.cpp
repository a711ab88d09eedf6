#include "mpi/intranode/nodes_map.hpp"

#include <algorithm>
#include <unordered_map>

namespace outrigger::mpi {

NodesMap::NodesMap(std::span<const std::uint32_t> names) {
  std::unordered_map<std::uint32_t, std::uint32_t> numbers;
  for (const std::uint32_t name : names) {
    const auto rank = static_cast<std::uint32_t>(node_of_.size());
    const std::uint32_t node = numbers.try_emplace(name, static_cast<std::uint32_t>(numbers.size())).first->second;
    if (node == ranks_of_.size()) ranks_of_.emplace_back();
    sorted_ = sorted_ && (rank == 0 || node_of_.back() <= node);
    node_of_.push_back(node);
    local_of_.push_back(size_of(node));
    ranks_of_[node].push_back(rank);
  }
  std::uint32_t first = 0;
  for (std::uint32_t node = 0; node < nodes(); ++node) {
    first_place_of_.push_back(first);
    first += size_of(node);
    largest_ = std::max(largest_, size_of(node));
  }
}

}  // namespace outrigger::mpi
