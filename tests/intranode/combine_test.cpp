// Trees of random shapes against one kernel call after the other.
#include "intranode/combine.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace outrigger::intranode {
namespace {

constexpr Reduction kSum{ReduceOperation::sum, ElementType::float32};
using Vector = std::vector<float>;

struct Reference {
  std::mt19937_64 random;
  std::vector<Vector> inputs;
  std::string text;

  // A random tree over [low, high), its text and its value.
  Vector add(std::uint32_t low, std::uint32_t high) {
    if (high - low == 1) {
      text += std::to_string(low);
      return inputs[low];
    }
    const std::uint32_t middle = low + 1 + static_cast<std::uint32_t>(random() % (high - low - 1));
    text += '(';
    Vector left = add(low, middle);
    text += ',';
    const Vector right = add(middle, high);
    text += ')';
    for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i];
    return left;
  }
};

TEST(OrderCombineTest, AddsInTheOrderOfTheTree) {
  Reference reference{std::mt19937_64(1), {}, {}};
  for (int round = 0; round < 300; ++round) {
    const auto members = static_cast<std::uint32_t>(1 + reference.random() % kMostMembers);
    const std::size_t elements = reference.random() % 3000;
    reference.inputs.assign(members, Vector(elements));
    for (Vector& input : reference.inputs) {
      for (float& value : input) value = static_cast<float>(reference.random() % 100'000) * 1e-3F;
    }
    reference.text.clear();
    const Vector expected = reference.add(0, members);
    const SumOrder order(SumTree::parse(reference.text).value());
    const OrderCombine combine(kSum, order);
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
    ASSERT_FALSE(combine.asks_native());
  }
}

// Integers, booleans and pairs are combined in the same way.
TEST(OrderCombineTest, CombinesWhateverMpiDefines) {
  for (const ReduceOperationRow& operation : kReduceOperations) {
    for (const ElementTypeRow& type : kElementTypes) {
      if (!is_defined(operation.operation, type.kind)) continue;
      const Reduction reduction{operation.operation, type.type};
      const std::vector<std::byte> zeros(5 * reduction.element_bytes());
      std::vector<std::byte> into = zeros;
      const std::vector<const std::byte*> contributions(3, zeros.data());
      const SumOrder order(SumTree::linear(3));
      const OrderCombine combine(reduction, order);
      combine.apply(contributions, into.data(), 0, 5);
      EXPECT_EQ(into, zeros) << operation.name << " of " << type.name;
      EXPECT_FALSE(combine.asks_native());
    }
  }
}

TEST(OrderCombineTest, AsksForNaNs) {
  const std::vector<float> one{1, std::nanf(""), 1};
  const std::vector<float> two{1, 1, 1};
  const std::array from{reinterpret_cast<const std::byte*>(one.data()), reinterpret_cast<const std::byte*>(two.data())};
  std::vector<float> into(3);
  const SumOrder order(SumTree::linear(2));
  const OrderCombine combine(kSum, order);
  combine.apply(from, reinterpret_cast<std::byte*>(into.data()), 0, 1);
  EXPECT_FALSE(combine.asks_native());
  combine.apply(from, reinterpret_cast<std::byte*>(into.data()), 0, 3);
  EXPECT_TRUE(combine.asks_native());
  combine.apply(from, reinterpret_cast<std::byte*>(into.data()), 0, 1);
  EXPECT_TRUE(combine.asks_native()) << "of all pieces";
}

// Members of a scan: each has another result, and all come to the same about it.
TEST(PrefixCombineTest, AsksForNaNsOfAllMembers) {
  const std::vector<float> one{1, 2};
  const std::vector<float> two{4, 8};
  const std::vector<float> three{std::nanf(""), 1};
  const std::array from{reinterpret_cast<const std::byte*>(one.data()), reinterpret_cast<const std::byte*>(two.data()),
                        reinterpret_cast<const std::byte*>(three.data())};
  const SumOrder all(SumTree::linear(3));
  for (std::size_t members = 1; members < 3; ++members) {
    std::vector<float> into(2);
    const SumOrder order(SumTree::linear(members));
    const PrefixCombine combine(kSum, order, all);
    combine.apply(from, reinterpret_cast<std::byte*>(into.data()), 0, 2);
    EXPECT_EQ(into, (members == 1 ? one : std::vector<float>{5, 10}));
    EXPECT_TRUE(combine.asks_native()) << members;
    const std::array numbers{from[0], from[1], from[0]};
    const PrefixCombine sure(kSum, order, all);
    sure.apply(numbers, reinterpret_cast<std::byte*>(into.data()), 0, 2);
    EXPECT_FALSE(sure.asks_native()) << members;
  }
}

}  // namespace
}  // namespace outrigger::intranode
