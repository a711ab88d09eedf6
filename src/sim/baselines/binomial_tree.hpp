// A binomial tree over the ranks, counted from its root. A rank's parent is at the distance of its lowest set bit, its
// children are at all smaller powers of two.
#pragma once

#include <algorithm>
#include <cstdint>

namespace outrigger::sim::baselines {

class BinomialTree {
 public:
  BinomialTree(std::uint32_t rank, std::uint32_t size, std::uint32_t root)
      : rank_(rank), size_(size), from_root_((rank + size - root) % size) {
    while (to_parent_ < size && (from_root_ & to_parent_) == 0) to_parent_ *= 2;
  }

  // This rank, counted from the root.
  [[nodiscard]] std::uint32_t from_root() const { return from_root_; }
  [[nodiscard]] bool is_root() const { return from_root_ == 0; }
  // A power of two; for the root, the first one without a child.
  [[nodiscard]] std::uint32_t to_parent() const { return to_parent_; }
  [[nodiscard]] std::uint32_t parent() const { return (rank_ + size_ - to_parent_) % size_; }
  [[nodiscard]] bool has_child(std::uint32_t distance) const { return from_root_ + distance < size_; }
  [[nodiscard]] std::uint32_t child(std::uint32_t distance) const { return (rank_ + distance) % size_; }
  // Ranks in the subtree of this one, and in that of the child.
  [[nodiscard]] std::uint32_t ranks() const { return std::min(to_parent_, size_ - from_root_); }
  [[nodiscard]] std::uint32_t ranks_of_child(std::uint32_t distance) const {
    return std::min(distance, size_ - from_root_ - distance);
  }

 private:
  std::uint32_t rank_;
  std::uint32_t size_;
  std::uint32_t from_root_;
  std::uint32_t to_parent_ = 1;
};

}  // namespace outrigger::sim::baselines
