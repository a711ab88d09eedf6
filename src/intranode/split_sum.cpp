#include "intranode/split_sum.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace outrigger::intranode {
namespace {

using Mask = Branches::Mask;
using Node = SumTree::Node;

// The contributions in each operand.
std::vector<Mask> masks_of(const SumTree& tree) {
  std::vector<Mask> masks;
  for (std::size_t member = 0; member < tree.members(); ++member) masks.push_back(Mask{1} << member);
  for (const auto& [left, right] : tree.nodes()) masks.push_back(masks[left] | masks[right]);
  return masks;
}

Branches largest_subtrees(const SumTree& tree, const std::vector<Mask>& masks, std::size_t most) {
  const auto is_small = [most](Mask mask) { return std::cmp_less_equal(std::popcount(mask), most); };
  std::vector<Mask> found;
  for (std::size_t k = 0; k < tree.nodes().size(); ++k) {
    if (is_small(masks[tree.members() + k])) continue;
    for (const std::uint8_t operand : {tree.nodes()[k].left, tree.nodes()[k].right}) {
      if (is_small(masks[operand])) found.push_back(masks[operand]);
    }
  }
  return Branches(found);
}

// Those with which a leader loads least.
Branches best_subtrees(const SumTree& tree, const std::vector<Mask>& masks) {
  Branches best = largest_subtrees(tree, masks, Branches::kMost);
  for (std::size_t most = Branches::kMost - 1; most > 1; --most) {
    const Branches smaller = largest_subtrees(tree, masks, most);
    if (smaller.most_loads() < best.most_loads()) best = smaller;
  }
  return best;
}

// The tree between some operands, its leaves, and one above all of them.
SumTree tree_above(const SumTree& tree, const std::vector<Mask>& masks, const std::vector<Mask>& leaves) {
  constexpr std::uint8_t kOutside = UINT8_MAX;
  std::vector<std::uint8_t> numbers(masks.size(), kOutside);
  std::vector<Node> nodes;
  for (std::size_t operand = 0; operand < masks.size(); ++operand) {
    const auto leaf = std::ranges::find(leaves, masks[operand]);
    if (leaf != leaves.end()) {
      numbers[operand] = static_cast<std::uint8_t>(leaf - leaves.begin());
    } else if (operand >= tree.members()) {
      const auto [left, right] = tree.nodes()[operand - tree.members()];
      if (numbers[left] == kOutside || numbers[right] == kOutside) continue;
      numbers[operand] = static_cast<std::uint8_t>(leaves.size() + nodes.size());
      nodes.push_back({numbers[left], numbers[right]});
    }
  }
  return *SumTree::of(leaves.size(), std::move(nodes));
}

SplitSum split_at(const SumTree& tree, const std::vector<Mask>& masks, const Branches& branches) {
  std::vector<SumTree> parts;
  for (std::uint32_t branch = 0; branch < branches.count(); ++branch) {
    std::vector<Mask> leaves;
    for (const std::uint8_t member : branches.members(branch)) leaves.push_back(masks[member]);
    parts.push_back(tree_above(tree, masks, leaves));
  }
  return {branches, std::move(parts), tree_above(tree, masks, branches.masks())};
}

SplitSum in_any_order(const Branches& branches) {
  std::vector<SumTree> parts;
  for (std::uint32_t branch = 0; branch < branches.count(); ++branch) {
    parts.push_back(SumTree::linear(branches.members(branch).size()));
  }
  return {branches, std::move(parts), SumTree::linear(branches.count())};
}

bool is_in_any_order(const Reduction& reduction) {
  return is_exact(reduction) || (is_evaluated(reduction) && any_order(reduction));
}

}  // namespace

std::optional<SplitSum> split(const SumTree& tree, const Branches& near) {
  const std::vector<Mask> masks = masks_of(tree);
  const auto is_subtree = [&](Mask branch) { return std::ranges::find(masks, branch) != masks.end(); };
  if (std::ranges::all_of(near.masks(), is_subtree)) return split_at(tree, masks, near);
  if (tree.members() <= Branches::kMost) return std::nullopt;
  const Branches subtrees = best_subtrees(tree, masks);
  return subtrees.pay() ? std::optional(split_at(tree, masks, subtrees)) : std::nullopt;
}

SplitSums::SplitSums(const Branches& near) : in_any_order_(in_any_order(near)) {}

const SplitSum* SplitSums::of(const Combine& combine) {
  const OrderCombine* ordered = combine.in_order();
  if (ordered == nullptr) return nullptr;
  if (is_in_any_order(ordered->reduction())) return &in_any_order_;
  const std::vector<SumOrder::Part>& parts = ordered->order().parts();
  return rounds(ordered->reduction()) && parts.size() == 1 ? of(parts.front().tree) : nullptr;
}

const SplitSum* SplitSums::of(const SumTree& tree) {
  const auto is_it = [&](const Known& known) {
    const std::size_t bytes = tree.nodes().size() * sizeof(Node);
    return known.nodes.size() == tree.nodes().size() &&
           std::memcmp(known.nodes.data(), tree.nodes().data(), bytes) == 0;
  };
  auto known = std::ranges::find_if(known_, is_it);
  if (known == known_.end()) {
    if (known_.size() == kMostKnown) known_.erase(known_.begin());
    known_.push_back({tree.nodes(), split(tree, in_any_order_.branches)});
    known = known_.end() - 1;
  }
  return known->split ? &*known->split : nullptr;
}

}  // namespace outrigger::intranode
