// Trees of random shapes against one kernel call after the other.
#include "intranode/combine.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace outrigger::intranode {
namespace {

constexpr Reduction kSum{ReduceOperation::sum, ElementType::float32};
using Vector = std::vector<float>;

struct Reference {
  std::mt19937_64 random;
  std::vector<Vector> inputs;
  std::vector<std::uint8_t> program;

  // A random tree over [low, high), its program and its value.
  Vector add(std::uint32_t low, std::uint32_t high) {
    if (high - low == 1) {
      program.push_back(static_cast<std::uint8_t>(low));
      return inputs[low];
    }
    const std::uint32_t middle = low + 1 + static_cast<std::uint32_t>(random() % (high - low - 1));
    Vector left = add(low, middle);
    const Vector right = add(middle, high);
    program.push_back(TreeCombine::kJoin);
    for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i];
    return left;
  }
};

TEST(TreeCombineTest, AddsInTheOrderOfTheTree) {
  Reference reference{std::mt19937_64(1), {}, {}};
  for (int round = 0; round < 300; ++round) {
    const auto members = static_cast<std::uint32_t>(1 + reference.random() % kMostMembers);
    const std::size_t elements = reference.random() % 3000;
    reference.inputs.assign(members, Vector(elements));
    for (Vector& input : reference.inputs) {
      for (float& value : input) value = static_cast<float>(reference.random() % 100'000) * 1e-3F;
    }
    reference.program.clear();
    const Vector expected = reference.add(0, members);
    ASSERT_TRUE(TreeCombine::is_tree(reference.program, members));
    const TreeCombine combine(kSum, reference.program);
    // The result goes into memory of its own, or into one of the inputs.
    const std::uint32_t target = static_cast<std::uint32_t>(reference.random() % (members + 1));
    Vector apart(elements);
    Vector& into = target < members ? reference.inputs[target] : apart;
    std::vector<const std::byte*> contributions;
    for (const Vector& input : reference.inputs) {
      contributions.push_back(reinterpret_cast<const std::byte*>(input.data()));
    }
    combine.apply(contributions, reinterpret_cast<std::byte*>(into.data()), 0, elements);
    ASSERT_EQ(into, expected) << members << " members, " << elements << " elements, into " << target;
  }
}

TEST(TreeCombineTest, KnowsWhatIsATree) {
  constexpr std::uint8_t kJoin = TreeCombine::kJoin;
  const std::vector<std::uint8_t> pair{0, 1, kJoin};
  EXPECT_TRUE(TreeCombine::is_tree(pair, 2));
  EXPECT_FALSE(TreeCombine::is_tree(pair, 3));
  EXPECT_FALSE(TreeCombine::is_tree(std::vector<std::uint8_t>{0, 1}, 2));
  EXPECT_FALSE(TreeCombine::is_tree(std::vector<std::uint8_t>{0, 0, kJoin}, 2));
  EXPECT_FALSE(TreeCombine::is_tree(std::vector<std::uint8_t>{0, kJoin, 1}, 2));
  EXPECT_FALSE(TreeCombine::is_tree({}, 0));
}

}  // namespace
}  // namespace outrigger::intranode
