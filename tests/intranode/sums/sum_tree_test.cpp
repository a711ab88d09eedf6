#include "intranode/sums/sum_tree.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "intranode/sums/random_contributions.hpp"
#include "intranode/sums/sum_kernels.hpp"
#include "scalar_trees.hpp"

namespace outrigger::intranode {
namespace {

template <class T>
constexpr std::size_t kBytes = std::numeric_limits<T>::digits == 64 ? 10 : sizeof(T);

template <class T>
std::vector<const std::byte*> places(const std::vector<std::vector<T>>& contributions) {
  std::vector<const std::byte*> all;
  for (const auto& each : contributions) all.push_back(reinterpret_cast<const std::byte*>(each.data()));
  return all;
}

template <class T>
std::vector<std::vector<T>> random_contributions(ReduceOperation operation, std::uint64_t vector, std::size_t members,
                                                 std::size_t elements) {
  const RandomContributions<T> random(operation, vector);
  std::vector<std::vector<T>> all(members, std::vector<T>(elements));
  for (std::size_t member = 0; member < members; ++member) {
    for (std::size_t t = 0; t < elements; ++t) all[member][t] = random.value(t, member);
  }
  return all;
}

bool keeps_payloads(ReduceOperation operation) {
  return operation == ReduceOperation::min || operation == ReduceOperation::max;
}

// The bits of each element, and what evaluate() says of NaNs. How many vectors had one.
template <class T>
std::size_t compare(const ScalarTree& scalar, ReduceOperation operation, std::uint64_t vector, std::size_t elements) {
  const auto contributions = random_contributions<T>(operation, vector, scalar.members, elements);
  std::vector<T> out(elements);
  const Bits bits = evaluate(scalar.tree(), {operation, kType<T>}, places(contributions),
                             reinterpret_cast<std::byte*>(out.data()), elements);
  bool nan = false;
  for (std::size_t t = 0; t < elements; ++t) {
    const T expected = scalar.value<T>(operation, [&](std::size_t i) { return contributions[i][t]; });
    nan |= std::isnan(expected);
    if (std::isnan(expected) && !keeps_payloads(operation)) {
      EXPECT_TRUE(std::isnan(out[t]));
    } else {
      EXPECT_EQ(std::memcmp(&out[t], &expected, kBytes<T>), 0)
          << scalar.tree().text() << " " << name_of(operation) << " vector " << vector << " element " << t << ": "
          << static_cast<double>(out[t]) << " for " << static_cast<double>(expected);
    }
  }
  EXPECT_EQ(bits == Bits::ask_native, nan && !keeps_payloads(operation));
  return nan ? 1 : 0;
}

std::vector<ScalarTree> trees(std::size_t members, std::mt19937_64& random) {
  return {recursive_doubling(members, false), linear_from(members, 0), random_tree(members, random)};
}

// A hundred thousand vectors.
template <class T>
class Vectors : public testing::Test {};
using Types = testing::Types<float, double, long double>;
TYPED_TEST_SUITE(Vectors, Types);

TYPED_TEST(Vectors, HaveTheBitsOfScalarOperations) {
  std::mt19937_64 random(1);
  std::size_t with_nan = 0;
  std::size_t vectors = 0;
  while (vectors < 34'000 && !testing::Test::HasFailure()) {
    for (std::size_t members = 1; members <= 16; ++members) {
      for (const ScalarTree& tree : trees(members, random)) {
        for (const auto operation :
             {ReduceOperation::sum, ReduceOperation::prod, ReduceOperation::min, ReduceOperation::max}) {
          with_nan += compare<TypeParam>(tree, operation, vectors, 1 + vectors % 11);
          ++vectors;
        }
      }
    }
  }
  EXPECT_GT(with_nan, 1000U);
  EXPECT_LT(with_nan, vectors / 2);
}

TYPED_TEST(Vectors, OfAnyLength) {
  std::mt19937_64 random(2);
  for (const std::size_t elements : std::initializer_list<std::size_t>{0, 1, 31, 127, 128, 129, 511, 512, 513, 5000}) {
    for (const std::size_t members : std::initializer_list<std::size_t>{2, 4, 7, 8, 9, 64}) {
      for (const ScalarTree& tree : trees(members, random)) compare<TypeParam>(tree, ReduceOperation::sum, 3, elements);
    }
  }
}

TYPED_TEST(Vectors, MayBeOverwritten) {
  std::mt19937_64 random(3);
  for (const std::size_t members : std::initializer_list<std::size_t>{2, 3, 5, 8, 11}) {
    for (const ScalarTree& scalar : trees(members, random)) {
      for (std::size_t out = 0; out < members; ++out) {
        auto contributions = random_contributions<TypeParam>(ReduceOperation::max, members, members, 700);
        std::vector<TypeParam> expected;
        for (std::size_t t = 0; t < 700; ++t)
          expected.push_back(
              scalar.value<TypeParam>(ReduceOperation::max, [&](std::size_t i) { return contributions[i][t]; }));
        static_cast<void>(evaluate(scalar.tree(), {ReduceOperation::max, kType<TypeParam>}, places(contributions),
                                   reinterpret_cast<std::byte*>(contributions[out].data()), 700));
        for (std::size_t t = 0; t < 700; ++t)
          ASSERT_EQ(std::memcmp(&expected[t], &contributions[out][t], kBytes<TypeParam>), 0) << t;
      }
    }
  }
}

// Sums are fused in registers up to eight members: one of the contributions may be the output there as well.
TEST(Fused, MayBeOverwritten) {
  for (const ScalarTree& scalar : {recursive_doubling(4, false), linear_from(6, 0)}) {
    for (std::size_t out = 0; out < scalar.members; ++out) {
      std::vector<std::vector<double>> contributions(scalar.members, std::vector<double>(99));
      for (std::size_t i = 0; i < scalar.members; ++i) {
        for (std::size_t t = 0; t < 99; ++t) contributions[i][t] = std::sqrt(static_cast<double>(1 + i * 99 + t));
      }
      const auto before = contributions;
      ASSERT_EQ(evaluate(scalar.tree(), {ReduceOperation::sum, ElementType::float64}, places(contributions),
                         reinterpret_cast<std::byte*>(contributions[out].data()), 99),
                Bits::exact);
      for (std::size_t t = 0; t < 99; ++t) {
        ASSERT_EQ(contributions[out][t],
                  scalar.value<double>(ReduceOperation::sum, [&](std::size_t i) { return before[i][t]; }));
      }
    }
  }
}

// evaluate() takes the widest instructions here; others have the same bits.
TEST(Fused, HasTheSameBitsByTheBaseline) {
  for (std::size_t members = 2; members <= FusedKernels::kMostMembers; ++members) {
    for (const bool linear : {false, true}) {
      for (const bool product : {false, true}) {
        const auto operation = product ? ReduceOperation::prod : ReduceOperation::sum;
        const auto contributions = random_contributions<float>(operation, members, members, 1003);
        std::vector<float> narrow(1003);
        std::vector<float> wide(1003);
        const bool nan = fused_baseline().kernels[0][product][linear][members](
            places(contributions).data(), reinterpret_cast<std::byte*>(narrow.data()), 1003);
        const Bits bits =
            evaluate(linear ? SumTree::linear(members) : SumTree::balanced(members), {operation, ElementType::float32},
                     places(contributions), reinterpret_cast<std::byte*>(wide.data()), 1003);
        EXPECT_EQ(nan, bits == Bits::ask_native);
        for (std::size_t t = 0; t < 1003; ++t) {
          if (std::isnan(narrow[t])) {
            ASSERT_TRUE(std::isnan(wide[t]));
          } else {
            ASSERT_EQ(std::memcmp(&narrow[t], &wide[t], sizeof(float)), 0) << members << " " << linear << " " << t;
          }
        }
      }
    }
  }
}

TEST(Complex, AreAddedByParts) {
  const ScalarTree scalar = linear_from(5, 2);
  const auto contributions = random_contributions<double>(ReduceOperation::sum, 9, 5, 600);
  std::vector<double> whole(600);
  std::vector<double> parts(600);
  static_cast<void>(evaluate(scalar.tree(), {ReduceOperation::sum, ElementType::complex_double}, places(contributions),
                             reinterpret_cast<std::byte*>(whole.data()), 300));
  static_cast<void>(evaluate(scalar.tree(), {ReduceOperation::sum, ElementType::float64}, places(contributions),
                             reinterpret_cast<std::byte*>(parts.data()), 600));
  for (std::size_t t = 0; t < 600; ++t) {
    EXPECT_TRUE(std::memcmp(&whole[t], &parts[t], sizeof(double)) == 0 ||
                (std::isnan(whole[t]) && std::isnan(parts[t])));
  }
  EXPECT_FALSE(is_evaluated({ReduceOperation::prod, ElementType::complex_double}));
  EXPECT_FALSE(is_evaluated({ReduceOperation::sum, ElementType::int32}));
}

TEST(Tree, HasItsShapes) {
  EXPECT_EQ(SumTree::balanced(1).text(), "0");
  EXPECT_EQ(SumTree::balanced(3).text(), "((0,1),2)");
  EXPECT_EQ(SumTree::balanced(6).text(), "(((0,1),(2,3)),(4,5))");
  EXPECT_EQ(SumTree::balanced(7).text(), "(((0,1),(2,3)),((4,5),6))");
  EXPECT_EQ(SumTree::linear(4).text(), "(((0,1),2),3)");
  for (std::size_t members = 1; members <= 64; ++members) {
    EXPECT_EQ(SumTree::balanced(members), recursive_doubling(members, false).tree()) << members;
    EXPECT_EQ(SumTree::linear(members), linear_from(members, 0).tree()) << members;
  }
}

TEST(Tree, IsWhatItsTextSays) {
  std::mt19937_64 random(4);
  for (std::size_t members = 1; members <= SumTree::kMostMembers; ++members) {
    const SumTree tree = random_tree(members, random).tree();
    EXPECT_LE(tree.text().size(), SumTree::kMostText);
    EXPECT_EQ(SumTree::parse(tree.text()), tree) << tree.text();
  }
  for (const char* text : {"", "1", "(0,0)", "(0,2)", "(0,1", "(0,1))", "(0,1)x", "(0 1)", "((0,1),)", "(64,0)", "-1"})
    EXPECT_EQ(SumTree::parse(text), std::nullopt) << text;
  EXPECT_EQ(SumTree::parse(std::string(100'000, '(')), std::nullopt);
}

TEST(Tree, IsRefusedIfItIsNone) {
  EXPECT_EQ(SumTree::of(0, {}), std::nullopt);
  EXPECT_EQ(SumTree::of(3, {{0, 1}}), std::nullopt);
  EXPECT_EQ(SumTree::of(3, {{0, 1}, {2, 4}}), std::nullopt);
  EXPECT_EQ(SumTree::of(3, {{0, 1}, {0, 3}}), std::nullopt);
  EXPECT_EQ(SumTree::of(65, std::vector<SumTree::Node>(64)), std::nullopt);
}

}  // namespace
}  // namespace outrigger::intranode
