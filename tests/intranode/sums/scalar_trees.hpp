// Trees and their evaluation one number after the other: what SumTree and evaluate() are compared with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "intranode/sums/sum_tree.hpp"

namespace outrigger::intranode {

template <class T>
constexpr ElementType kType = std::is_same_v<T, float>    ? ElementType::float32
                              : std::is_same_v<T, double> ? ElementType::float64
                                                          : ElementType::long_double;

// A node's result.
template <class T>
T combined(ReduceOperation operation, T left, T right) {
  switch (operation) {
    case ReduceOperation::sum: return left + right;
    case ReduceOperation::prod: return left * right;
    case ReduceOperation::max: return right > left ? right : left;
    default: return right < left ? right : left;
  }
}

// Node by node; numbered as SumTree::Node has it, in whatever order of evaluation.
struct ScalarTree {
  std::size_t members;
  std::vector<SumTree::Node> nodes;

  template <class T, class Contribution>
  [[nodiscard]] T value(ReduceOperation operation, const Contribution& contribution) const {
    std::vector<T> values(members);
    for (std::size_t i = 0; i < members; ++i) values[i] = contribution(i);
    for (const auto [left, right] : nodes) values.push_back(combined(operation, values[left], values[right]));
    return values.back();
  }
  [[nodiscard]] SumTree tree() const { return SumTree::of(members, nodes).value(); }
};

inline std::vector<std::uint8_t> leaves_of(std::size_t members) {
  std::vector<std::uint8_t> leaves(members);
  for (std::size_t i = 0; i < members; ++i) leaves[i] = static_cast<std::uint8_t>(i);
  return leaves;
}

class ScalarTreeBuilder {
 public:
  explicit ScalarTreeBuilder(std::size_t members) : tree_{members, {}} {}
  std::uint8_t join(std::uint8_t left, std::uint8_t right) {
    tree_.nodes.push_back({left, right});
    return static_cast<std::uint8_t>(tree_.members + tree_.nodes.size() - 1);
  }
  // One after the other.
  std::uint8_t chain(const std::vector<std::uint8_t>& operands) {
    std::uint8_t all = operands.front();
    for (std::size_t i = 1; i < operands.size(); ++i) all = join(all, operands[i]);
    return all;
  }
  [[nodiscard]] ScalarTree done() const { return tree_; }

 private:
  ScalarTree tree_;
};

inline ScalarTree linear_from(std::size_t members, std::size_t start) {
  ScalarTreeBuilder builder(members);
  std::vector<std::uint8_t> order;
  for (std::size_t i = 0; i < members; ++i) order.push_back(static_cast<std::uint8_t>((start + i) % members));
  builder.chain(order);
  return builder.done();
}

inline ScalarTree reversed(std::size_t members) {
  ScalarTreeBuilder builder(members);
  std::uint8_t all = static_cast<std::uint8_t>(members - 1);
  for (std::size_t i = members - 1; i-- > 0;) all = builder.join(static_cast<std::uint8_t>(i), all);
  return builder.done();
}

// Groups of k in a chain, and groups of these, with the root's own number first.
inline ScalarTree k_ary(std::size_t members, std::size_t k) {
  ScalarTreeBuilder builder(members);
  std::vector<std::uint8_t> operands = leaves_of(members);
  while (operands.size() > 1) {
    std::vector<std::uint8_t> next;
    for (std::size_t i = 0; i < operands.size(); i += k) {
      const auto from = operands.begin() + static_cast<std::ptrdiff_t>(i);
      const auto to = operands.begin() + static_cast<std::ptrdiff_t>(std::min(i + k, operands.size()));
      next.push_back(builder.chain({from, to}));
    }
    operands = next;
  }
  return builder.done();
}

// Recursive doubling. Members beyond a power of two are added first: to their neighbors at the front, or the last ones
// to the first ones.
inline ScalarTree recursive_doubling(std::size_t members, bool fold_last) {
  ScalarTreeBuilder builder(members);
  std::size_t power = 1;
  while (2 * power <= members) power *= 2;
  const std::size_t extra = members - power;
  std::vector<std::uint8_t> operands;
  for (std::size_t i = 0; i < power; ++i) {
    const auto own = static_cast<std::uint8_t>(fold_last ? i : i < extra ? 2 * i : i + extra);
    const auto other = static_cast<std::uint8_t>(fold_last ? i + power : own + 1);
    operands.push_back(i < extra ? builder.join(own, other) : own);
  }
  for (std::size_t distance = 1; distance < power; distance *= 2) {
    for (std::size_t i = 0; i < power; i += 2 * distance)
      operands[i] = builder.join(operands[i], operands[i + distance]);
  }
  return builder.done();
}

inline ScalarTree random_tree(std::size_t members, std::mt19937_64& random) {
  ScalarTreeBuilder builder(members);
  std::vector<std::uint8_t> operands = leaves_of(members);
  while (operands.size() > 1) {
    const std::size_t i = random() % operands.size();
    const std::uint8_t left = operands[i];
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(i));
    const std::size_t j = random() % operands.size();
    operands[j] = builder.join(left, operands[j]);
  }
  return builder.done();
}

}  // namespace outrigger::intranode
