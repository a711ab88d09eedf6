#include "intranode/sums/sum_tree.hpp"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "intranode/sums/random_contributions.hpp"
#include "intranode/sums/sum_kernels.hpp"
#include "scalar_trees.hpp"

namespace outrigger::intranode {
namespace {

template <class T>
constexpr std::size_t kBytes = std::numeric_limits<T>::digits == 64 ? 10 : sizeof(T);

template <class T>
bool same(const T& one, const T& other) {
  return std::memcmp(&one, &other, kBytes<T>) == 0;
}

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

// The bits of each element, and what evaluate() says of NaNs. Had a contribution one?
template <class T>
bool compare(const ScalarTree& scalar, ReduceOperation operation, std::uint64_t vector, std::size_t elements) {
  auto contributions = random_contributions<T>(operation, vector, scalar.members, elements);
  if (vector % 20 == 0 && elements != 0)
    contributions[vector / 20 % scalar.members][vector % elements] = std::numeric_limits<T>::quiet_NaN();
  std::vector<T> out(elements);
  const Bits bits = evaluate(scalar.tree(), {operation, kType<T>}, places(contributions),
                             reinterpret_cast<std::byte*>(out.data()), elements);
  bool nan = false;
  for (std::size_t t = 0; t < elements; ++t) {
    const T expected = scalar.value<T>(operation, [&](std::size_t i) { return contributions[i][t]; });
    bool given = false;
    for (const auto& contribution : contributions) given |= std::isnan(contribution[t]);
    nan |= given;
    EXPECT_TRUE(same(out[t], expected) || (given && std::isnan(expected) && std::isnan(out[t])))
        << scalar.tree().text() << " " << name_of(operation) << " vector " << vector << " element " << t << ": "
        << static_cast<double>(out[t]) << " for " << static_cast<double>(expected);
  }
  EXPECT_EQ(bits == Bits::ask_native, nan && scalar.members > 1);
  return nan;
}

// Few different numbers, and some that show the order.
template <class T>
T number_with_ties(std::mt19937_64& random) {
  const T sign = random() % 2 == 0 ? T{1} : T{-1};
  const std::uint64_t choice = random() % 64;
  if (choice == 0) return std::copysign(std::numeric_limits<T>::quiet_NaN(), sign);
  if (choice == 1) return sign * std::numeric_limits<T>::infinity();
  return choice < 4 ? sign * T{0} : sign * static_cast<T>(random() % 5 + 1);
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
        for (const auto operation : {ReduceOperation::sum, ReduceOperation::prod}) {
          if (compare<TypeParam>(tree, operation, vectors, 1 + vectors % 11)) ++with_nan;
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

#if defined(__x86_64__)
// Numbers that two threads with different modes would take for different ones.
template <class T>
T number_that_shows_modes(std::mt19937_64& random) {
  using Limits = std::numeric_limits<T>;
  const T sign = random() % 2 == 0 ? T{1} : T{-1};
  switch (random() % 24) {
    case 0: return sign * Limits::infinity();
    case 1: return sign * Limits::max();
    case 2: return sign * Limits::denorm_min() * static_cast<T>(1 + random() % 3);
    case 3: return sign * T{0};
    case 4: return random() % 20 == 0 ? Limits::quiet_NaN() : T{1};
    default: return sign * static_cast<T>(1 + random() % 5);
  }
}

// Members with different modes must come to the same: they do not exchange what evaluate() says.
TYPED_TEST(Vectors, AskInAllModesAlike) {
  constexpr unsigned kModes[] = {0, 0x8040, 0x6000};  // flush denormals, round towards zero
  std::mt19937_64 random(7);
  const unsigned before = __builtin_ia32_stmxcsr();
  std::size_t asked = 0;
  for (int vector = 0; vector < 20'000; ++vector) {
    const std::size_t members = 2 + random() % 9;
    const std::size_t elements = 1 + random() % 4 * (random() % 10);
    std::vector<std::vector<TypeParam>> contributions(members);
    for (auto& each : contributions) {
      for (std::size_t t = 0; t < elements; ++t) each.push_back(number_that_shows_modes<TypeParam>(random));
    }
    constexpr ReduceOperation kAll[] = {ReduceOperation::sum, ReduceOperation::prod, ReduceOperation::min,
                                        ReduceOperation::max};
    const Reduction reduction{kAll[random() % 4], kType<TypeParam>};
    const SumTree tree = random() % 2 == 0 ? SumTree::balanced(members) : random_tree(members, random).tree();
    std::vector<Bits> bits;
    for (const unsigned mode : kModes) {
      std::vector<TypeParam> out(elements);
      __builtin_ia32_ldmxcsr(before | mode);
      bits.push_back(
          evaluate(tree, reduction, places(contributions), reinterpret_cast<std::byte*>(out.data()), elements));
      __builtin_ia32_ldmxcsr(before);
    }
    ASSERT_TRUE(bits[0] == bits[1] && bits[0] == bits[2]) << name_of(reduction.operation) << " vector " << vector;
    if (bits[0] == Bits::ask_native) ++asked;
  }
  EXPECT_GT(asked, 1000U);
  EXPECT_LT(asked, 19'000U);
}
#endif

// Where evaluate() is sure, minima and maxima are the same by two trees and two rules for equal operands; and it is
// sure where no NaN and no zero is.
TYPED_TEST(Vectors, HaveTheExtremumOfAnyOrder) {
  std::mt19937_64 random(5);
  std::size_t sure = 0;
  std::size_t asked = 0;
  for (int vector = 0; vector < 20'000; ++vector) {
    const std::size_t members = 2 + random() % 9;
    const std::size_t elements = 1 + random() % 3 * (random() % 40);
    std::vector<std::vector<TypeParam>> contributions(members);
    bool plain = true;
    for (auto& each : contributions) {
      for (std::size_t t = 0; t < elements; ++t) {
        each.push_back(number_with_ties<TypeParam>(random));
        plain &= !std::isnan(each.back()) && each.back() != 0;
      }
    }
    for (const bool greatest : {false, true}) {
      const auto operation = greatest ? ReduceOperation::max : ReduceOperation::min;
      std::vector<TypeParam> out(elements);
      const Bits bits = evaluate(SumTree::linear(members), {operation, kType<TypeParam>}, places(contributions),
                                 reinterpret_cast<std::byte*>(out.data()), elements);
      bits == Bits::exact ? ++sure : ++asked;
      ASSERT_TRUE(bits == Bits::exact || !plain);
      const ScalarTree tree = random_tree(members, random);
      for (std::size_t t = 0; t < elements && bits == Bits::exact; ++t) {
        const auto contribution = [&](std::size_t i) { return contributions[i][t]; };
        ASSERT_TRUE(same(out[t], tree.value<TypeParam>(operation, contribution)));
        const auto reversed_pairs = [&](std::size_t i) { return contributions[members - 1 - i][t]; };
        ASSERT_TRUE(same(out[t], tree.value<TypeParam>(operation, reversed_pairs)));
        // All have the same NaN, or none has one.
        for (std::size_t i = 0; i < members; ++i)
          ASSERT_TRUE(!std::isnan(contribution(i)) || same(contribution(i), out[t]));
      }
    }
  }
  EXPECT_GT(sure, 5000U);
  EXPECT_GT(asked, 5000U);
}

TYPED_TEST(Vectors, MayBeOverwritten) {
  std::mt19937_64 random(3);
  for (const std::size_t members : std::initializer_list<std::size_t>{2, 3, 5, 8, 11}) {
    for (const ScalarTree& scalar : trees(members, random)) {
      for (const auto operation : {ReduceOperation::sum, ReduceOperation::max}) {
        for (std::size_t out = 0; out < members; ++out) {
          std::vector<std::vector<TypeParam>> contributions(members);
          for (std::size_t i = 0; i < members; ++i) {
            for (std::size_t t = 0; t < 700; ++t)
              contributions[i].push_back(std::sqrt(static_cast<TypeParam>(1 + random() % 1000)));
          }
          const auto before = contributions;
          ASSERT_EQ(evaluate(scalar.tree(), {operation, kType<TypeParam>}, places(contributions),
                             reinterpret_cast<std::byte*>(contributions[out].data()), 700),
                    Bits::exact);
          for (std::size_t t = 0; t < 700; ++t) {
            const TypeParam expected = scalar.value<TypeParam>(operation, [&](std::size_t i) { return before[i][t]; });
            ASSERT_TRUE(same(contributions[out][t], expected)) << t;
          }
        }
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
        EXPECT_TRUE(nan || bits == Bits::exact);
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

// Additions have the modes of the calling thread, whichever kernel does them.
TEST(Modes, AreTheCallingThreads) {
  const std::vector<std::vector<double>> contributions{{1e-310, 1}, {1e-310, 1e-17}, {1e-310, 1e-17}};
  const auto sums = [&](const SumTree& tree) {
    std::vector<double> out(2);
    EXPECT_EQ(evaluate(tree, {ReduceOperation::sum, ElementType::float64}, places(contributions),
                       reinterpret_cast<std::byte*>(out.data()), 2),
              Bits::exact);
    return out;
  };
  for (const char* text : {"((0,1),2)", "(2,(1,0))"}) {
    const SumTree tree = SumTree::parse(text).value();
    EXPECT_GT(sums(tree)[0], 0);
    EXPECT_EQ(sums(tree)[1], 1);
    std::fesetround(FE_UPWARD);
    EXPECT_GT(sums(tree)[1], 1);
    std::fesetround(FE_TONEAREST);
#if defined(__x86_64__)
    const unsigned modes = _mm_getcsr();
    _mm_setcsr(modes | 0x8040U);  // FTZ, DAZ
    EXPECT_EQ(sums(tree)[0], 0);
    _mm_setcsr(modes);
#endif
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
