// The order of a reduction in two levels: the branches of a team are subtrees of it, so that each can be evaluated
// apart. The result has the bits that the whole tree gives.
#pragma once

#include <optional>
#include <vector>

#include "intranode/branches.hpp"
#include "intranode/combine.hpp"
#include "intranode/sums/sum_tree.hpp"

namespace outrigger::intranode {

struct SplitSum {
  Branches branches;
  std::vector<SumTree> parts;  // of each branch's members
  SumTree whole;               // of the branches' results
};

// By `near` branches if they are subtrees, otherwise by the subtrees of Branches::kMost members at most with which
// leaders load least. Nothing if these do not pay.
[[nodiscard]] std::optional<SplitSum> split(const SumTree& tree, const Branches& near);

// A team's. Thread rule: the team's.
class SplitSums {
 public:
  explicit SplitSums(const Branches& near);
  // nullptr: the reduction has no order, or its order cannot be split. Valid until the next of().
  [[nodiscard]] const SplitSum* of(const Combine& combine);

 private:
  static constexpr std::size_t kMostKnown = 128;  // as many as OrderTable keeps: orders may differ by root
  struct Known {
    std::vector<SumTree::Node> nodes;
    std::optional<SplitSum> split;
  };
  [[nodiscard]] const SplitSum* of(const SumTree& tree);

  SplitSum in_any_order_;
  std::vector<Known> known_;
};

}  // namespace outrigger::intranode
