// Which members share a node, and with it memory.
#pragma once

#include <cstdint>
#include <vector>

namespace outrigger::group {

// `nodes` have their members in ascending order, and are in the order of their first ones. A member's place is its rank
// in the team of its node.
class Layout {
 public:
  // `first_of`: of each member, the first one of its node.
  Layout(std::uint32_t rank, const std::vector<std::uint32_t>& first_of) : rank_(rank) {
    for (std::uint32_t member = 0; member < first_of.size(); ++member) {
      const bool is_first = first_of[member] == member;
      const auto node = is_first ? static_cast<std::uint32_t>(nodes_.size()) : node_of_[first_of[member]];
      if (is_first) nodes_.emplace_back();
      node_of_.push_back(node);
      place_of_.push_back(static_cast<std::uint32_t>(nodes_[node].size()));
      nodes_[node].push_back(member);
    }
  }

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(node_of_.size()); }
  [[nodiscard]] std::uint32_t nodes() const { return static_cast<std::uint32_t>(nodes_.size()); }
  [[nodiscard]] const std::vector<std::uint32_t>& members(std::uint32_t node) const { return nodes_[node]; }
  [[nodiscard]] std::uint32_t node_of(std::uint32_t member) const { return node_of_[member]; }
  [[nodiscard]] std::uint32_t place_of(std::uint32_t member) const { return place_of_[member]; }

  [[nodiscard]] std::uint32_t node() const { return node_of_[rank_]; }
  [[nodiscard]] std::uint32_t place() const { return place_of_[rank_]; }
  [[nodiscard]] const std::vector<std::uint32_t>& here() const { return nodes_[node()]; }
  [[nodiscard]] bool is_here(std::uint32_t member) const { return node_of_[member] == node(); }

 private:
  std::uint32_t rank_;
  std::vector<std::uint32_t> node_of_;
  std::vector<std::uint32_t> place_of_;
  std::vector<std::vector<std::uint32_t>> nodes_;
};

}  // namespace outrigger::group
