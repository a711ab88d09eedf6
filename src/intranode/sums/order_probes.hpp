// The probes that order_learner.hpp describes: numbers in, observations out, and the tree that they give. One class for
// each kind of operation, for elements of type T.
//
//     count()                        probes of a sweep
//     value(probe, member, turned)   the contribution; `turned` in the second sweep: signs exchanged
//     observe(probe, result, turned) kNothing: the result is that of no tree
//     tree(observed)                 by probe; nothing: of no tree
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "intranode/sums/sum_tree.hpp"

namespace outrigger::intranode {

constexpr std::uint8_t kNothing = 0xFF;

// Pairs of members i < j, numbered by j, so that the pairs of the first members come first: a scan's result has only
// those.
class Pairs {
 public:
  explicit Pairs(std::size_t members) {
    for (std::size_t j = 1; j < members; ++j) {
      for (std::size_t i = 0; i < j; ++i)
        pairs_.push_back({static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(j)});
    }
  }
  struct Pair {
    std::uint8_t first;
    std::uint8_t second;
  };
  [[nodiscard]] std::size_t count() const { return pairs_.size(); }
  [[nodiscard]] const Pair& operator[](std::size_t number) const { return pairs_[number]; }
  [[nodiscard]] static std::size_t count_of(std::size_t members) { return members * (members - 1) / 2; }
  [[nodiscard]] static std::size_t number_of(std::size_t i, std::size_t j) {
    return i < j ? count_of(j) + i : count_of(i) + j;
  }

 private:
  std::vector<Pair> pairs_;
};

// FPRev's construction: the smallest leaf's path to the root has a sibling for each size that it shares with others.
class TreeOfSizes {
 public:
  // `size(i, j)`: of the least subtree with both.
  template <class Size>
  static std::optional<SumTree> build(std::size_t members, const Size& size) {
    TreeOfSizes builder(members);
    std::vector<std::uint8_t> leaves(members);
    for (std::size_t i = 0; i < members; ++i) leaves[i] = static_cast<std::uint8_t>(i);
    if (!builder.add(leaves, size)) return std::nullopt;
    return SumTree::of(members, std::move(builder.nodes_));
  }

 private:
  explicit TreeOfSizes(std::size_t members) : members_(members) {}

  // Nothing: the sizes contradict each other.
  template <class Size>
  std::optional<std::uint8_t> add(const std::vector<std::uint8_t>& leaves, const Size& size) {
    const std::uint8_t first = leaves.front();
    std::vector<std::uint8_t> others(leaves.begin() + 1, leaves.end());
    std::stable_sort(others.begin(), others.end(), [&](auto a, auto b) { return size(first, a) < size(first, b); });
    std::uint8_t tree = first;
    for (std::size_t done = 0; done < others.size();) {
      const std::size_t whole = size(first, others[done]);
      std::size_t end = done;
      while (end < others.size() && size(first, others[end]) == whole) ++end;
      if (whole != end + 1) return std::nullopt;
      const auto sibling =
          add({others.begin() + static_cast<std::ptrdiff_t>(done), others.begin() + static_cast<std::ptrdiff_t>(end)},
              size);
      if (!sibling) return std::nullopt;
      nodes_.push_back({tree, *sibling});
      tree = static_cast<std::uint8_t>(members_ + nodes_.size() - 1);
      done = end;
    }
    return tree;
  }

  std::size_t members_;
  std::vector<SumTree::Node> nodes_;
};

template <class T>
class SumProbes {
 public:
  SumProbes(std::size_t members, std::size_t summed) : pairs_(members), summed_(summed) {}

  [[nodiscard]] std::size_t count() const { return pairs_.count(); }
  // Is the probe about contributions that the result here has?
  [[nodiscard]] bool concerns(std::size_t probe) const { return pairs_[probe].second < summed_; }

  [[nodiscard]] T value(std::size_t probe, std::size_t member, bool turned) const {
    const T mask = turned ? -kMask : kMask;
    const auto [i, j] = pairs_[probe];
    return member == i ? mask : member == j ? -mask : T{1};
  }
  [[nodiscard]] std::uint8_t observe(std::size_t probe, T result, bool turned) const {
    static_cast<void>(probe);
    static_cast<void>(turned);
    const T most = static_cast<T>(summed_ - 2);
    if (!(result >= 0 && result <= most) || result != std::floor(result)) return kNothing;
    return static_cast<std::uint8_t>(summed_ - static_cast<std::size_t>(result));
  }
  [[nodiscard]] std::optional<SumTree> tree(std::span<const std::uint8_t> sizes) const {
    return TreeOfSizes::build(
        summed_, [&](std::size_t i, std::size_t j) -> std::size_t { return sizes[Pairs::number_of(i, j)]; });
  }

 private:
  // So large that a number of twice T's digits would lose the ones, too.
  static constexpr T kMask = [] {
    T mask = 1;
    for (int k = 0; k < std::min(std::numeric_limits<T>::max_exponent - 16, 300); ++k) mask *= 2;
    return mask;
  }();

  Pairs pairs_;
  std::size_t summed_;
};

template <class T>
class ProductProbes {
 public:
  ProductProbes(std::size_t members, std::size_t summed) : pairs_(members), summed_(summed) {}

  // Twice for each pair: either has the denormal.
  [[nodiscard]] std::size_t count() const { return 2 * pairs_.count(); }
  [[nodiscard]] bool concerns(std::size_t probe) const { return pairs_[probe / 2].second < summed_; }

  [[nodiscard]] T value(std::size_t probe, std::size_t member, bool turned) const {
    const auto [i, j] = pairs_[probe / 2];
    const std::size_t small = probe % 2 == 0 ? i : j;
    const std::size_t large = probe % 2 == 0 ? j : i;
    if (member == small) return turned ? -std::numeric_limits<T>::denorm_min() : std::numeric_limits<T>::denorm_min();
    return member == large ? large_number() : kFactor;
  }
  // How many are on the small one's side where the two meet: all but those that the result has as factors.
  [[nodiscard]] std::uint8_t observe(std::size_t probe, T result, bool turned) const {
    static_cast<void>(probe);
    const T factors = (turned ? -result : result) / std::numeric_limits<T>::denorm_min() / large_number();
    T power = 1;
    for (std::size_t k = 0; k + 2 <= summed_; ++k, power *= kFactor) {
      // Far less than a factor, far more than roundings.
      if (std::abs(factors / power - 1) < (kFactor - 1) / 8) return static_cast<std::uint8_t>(summed_ - 1 - k);
    }
    return kNothing;
  }
  [[nodiscard]] std::optional<SumTree> tree(std::span<const std::uint8_t> sides) const {
    return TreeOfSizes::build(summed_, [&](std::size_t i, std::size_t j) -> std::size_t {
      const std::size_t number = Pairs::number_of(i, j);
      return static_cast<std::size_t>(sides[2 * number]) + sides[2 * number + 1];
    });
  }

 private:
  // All of them together are less than 1.5: the smallest denormal remains what it is.
  static constexpr T kFactor = 1 + T{1} / 256;
  static T large_number() { return std::ldexp(T{1}, std::numeric_limits<T>::max_exponent - 28); }

  Pairs pairs_;
  std::size_t summed_;
};

}  // namespace outrigger::intranode
