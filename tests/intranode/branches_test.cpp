// Which members are together, and which orders of sums can be split so.
#include "intranode/branches.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "intranode/split_sum.hpp"
#include "random_calls.hpp"

namespace outrigger::intranode {
namespace {

// Such as "0 1 2|3 4".
std::string text_of(const Branches& branches) {
  std::string text;
  for (std::uint32_t branch = 0; branch < branches.count(); ++branch) {
    if (branch != 0) text += '|';
    for (const std::uint32_t member : branches.members(branch)) {
      EXPECT_EQ(branches.of(member), branch);
      text += (text.empty() || text.back() == '|' ? "" : " ") + std::to_string(member);
    }
  }
  return text;
}
std::string near(const std::vector<CorePlace>& places) {
  const std::optional<Branches> branches = Branches::near(places);
  return branches ? text_of(*branches) : "none";
}
// The cache of member m is m / `together`, and its node m / `on_node`.
std::vector<CorePlace> machine(std::uint32_t members, std::uint32_t together, std::uint32_t on_node) {
  std::vector<CorePlace> places;
  for (std::uint32_t member = 0; member < members; ++member) places.push_back({member / on_node, member / together});
  return places;
}

TEST(BranchesTest, MembersInARowAreInBranchesOfAboutTheSameLength) {
  EXPECT_EQ(text_of(Branches::in_a_row(9, 8)), "0 1 2 3 4|5 6 7 8");
  EXPECT_EQ(text_of(Branches::in_a_row(5, 2)), "0 1|2 3|4");
  EXPECT_EQ(text_of(Branches::in_a_row(3, 8)), "0 1 2");
  EXPECT_EQ(Branches::in_a_row(64, 8).count(), 8U);
}

TEST(BranchesTest, ARootLeadsItsBranch) {
  const Branches branches = Branches::in_a_row(10, 5);
  EXPECT_EQ(branches.leader(0), 0U);
  EXPECT_EQ(branches.leader(1), 5U);
  EXPECT_EQ(branches.leader(1, 7), 7U);
  EXPECT_EQ(branches.leader(0, 7), 0U);
}

TEST(BranchesTest, CachesAndNodesAreKeptTogether) {
  EXPECT_EQ(near(machine(12, 6, 6)), "0 1 2 3 4 5|6 7 8 9 10 11");
  // Two caches of a node fit into a branch, those of two nodes stay apart.
  EXPECT_EQ(near(machine(12, 3, 6)), "0 1 2 3 4 5|6 7 8 9 10 11");
  EXPECT_EQ(near(machine(16, 12, 12)), "0 1 2 3 4 5|6 7 8 9 10 11|12 13 14 15");
  // Ranks that go round the nodes.
  std::vector<CorePlace> places;
  for (std::uint32_t member = 0; member < 10; ++member) places.push_back({member % 2, member % 2});
  EXPECT_EQ(near(places), "0 2 4 6 8|1 3 5 7 9");
}

TEST(BranchesTest, WithoutPlacesMembersAreInARow) {
  std::vector<CorePlace> places = machine(16, 2, 4);
  places[5] = CorePlace();
  EXPECT_EQ(near(places), "0 1 2 3|4 5 6 7|8 9 10 11|12 13 14 15");
}

TEST(BranchesTest, OnlyLargeTeamsWithFewBranchesHaveThem) {
  EXPECT_EQ(near(machine(8, 4, 4)), "none");
  EXPECT_EQ(near(machine(12, 1, 1)), "none");
  EXPECT_EQ(near(machine(64, 1, 64)), near(machine(64, 8, 64)));
}

std::string split_text(const SumTree& tree, const Branches& branches) {
  const std::optional<SplitSum> sum = split(tree, branches);
  return sum ? text_of(sum->branches) : "none";
}

TEST(SplitSumTest, BranchesAreSubtrees) {
  const Branches near = Branches::in_a_row(16, 4);
  EXPECT_EQ(split_text(SumTree::balanced(16), near), text_of(near));
  // Otherwise its largest subtrees are taken.
  const std::vector<Branches::Mask> even_and_odd{0x5555, 0xAAAA};
  EXPECT_EQ(split_text(SumTree::balanced(16), Branches(even_and_odd)), text_of(near));
  EXPECT_EQ(split_text(SumTree::balanced(11), Branches::in_a_row(11, 8)), "0 1 2 3|4 5 6|7 8 9 10");
  EXPECT_EQ(split_text(SumTree::linear(16), near), "none");
  EXPECT_EQ(split_text(SumTree::balanced(8), Branches::in_a_row(8, 3)), "none");
}

SumTree random_tree(std::uint32_t members, std::mt19937_64& random) {
  std::vector<std::uint8_t> operands(members);
  for (std::uint32_t i = 0; i < members; ++i) operands[i] = static_cast<std::uint8_t>(i);
  std::vector<SumTree::Node> nodes;
  while (operands.size() > 1) {
    std::swap(operands.back(), operands[random() % operands.size()]);
    std::swap(operands[operands.size() - 2], operands[random() % (operands.size() - 1)]);
    nodes.push_back({operands.back(), operands[operands.size() - 2]});
    operands.pop_back();
    operands.back() = static_cast<std::uint8_t>(members + nodes.size() - 1);
  }
  return SumTree::of(members, nodes).value();
}

TEST(SplitSumTest, PartsGiveTheBitsOfTheWholeTree) {
  std::mt19937_64 random(1);
  int splits = 0;
  for (int round = 0; round < 1000; ++round) {
    const auto members = static_cast<std::uint32_t>(9 + random() % 56);
    const SumTree tree = random_tree(members, random);
    const std::optional<SplitSum> parts = split(tree, Branches::in_a_row(members, 8));
    if (!parts) continue;
    ++splits;
    constexpr std::size_t kElements = 5;
    std::vector<double> values(members * kElements);
    for (double& value : values) value = std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 80));
    const auto vector = [](const double* from) { return reinterpret_cast<const std::byte*>(from); };
    const auto memory = [](std::vector<double>& into) { return reinterpret_cast<std::byte*>(into.data()); };
    std::vector<const std::byte*> all;
    for (std::uint32_t member = 0; member < members; ++member) all.push_back(vector(&values[member * kElements]));
    std::vector<double> expected(kElements);
    EXPECT_EQ(evaluate(tree, kDoubleSum, all, memory(expected), kElements), Bits::exact);
    std::vector<std::vector<double>> results(parts->branches.count(), std::vector<double>(kElements));
    std::vector<const std::byte*> of_branches;
    for (std::uint32_t branch = 0; branch < parts->branches.count(); ++branch) {
      std::vector<const std::byte*> from;
      for (const std::uint32_t member : parts->branches.members(branch)) from.push_back(all[member]);
      EXPECT_EQ(evaluate(parts->parts[branch], kDoubleSum, from, memory(results[branch]), kElements), Bits::exact);
      of_branches.push_back(vector(results[branch].data()));
    }
    std::vector<double> result(kElements);
    EXPECT_EQ(evaluate(parts->whole, kDoubleSum, of_branches, memory(result), kElements), Bits::exact);
    EXPECT_EQ(std::memcmp(result.data(), expected.data(), kElements * sizeof(double)), 0) << tree.text();
  }
  EXPECT_GT(splits, 100);
}

// MPIs may have an order of a reduction for each root.
TEST(SplitSumTest, OrdersOfAllRootsAreKept) {
  SplitSums sums(Branches::in_a_row(64, 8));
  std::vector<SumOrder> orders;
  for (std::uint32_t root = 0; root < 64; ++root) {
    std::vector<SumTree::Node> nodes = SumTree::balanced(64).nodes();
    for (auto& [left, right] : nodes) {
      if (left < 64) left = static_cast<std::uint8_t>((left + root) % 64);
      if (right < 64) right = static_cast<std::uint8_t>((right + root) % 64);
    }
    orders.emplace_back(*SumTree::of(64, nodes));
  }
  for (const SumOrder& order : orders) EXPECT_NE(sums.of(OrderCombine(kDoubleSum, order)), nullptr);
  std::set<const SplitSum*> found;
  for (const SumOrder& order : orders) found.insert(sums.of(OrderCombine(kDoubleSum, order)));
  EXPECT_EQ(found.size(), orders.size()) << "some were split again";
}

}  // namespace
}  // namespace outrigger::intranode
