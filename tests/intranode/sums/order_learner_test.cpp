#include "intranode/sums/order_learner.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "intranode/sums/order_probes.hpp"
#include "scalar_trees.hpp"

namespace outrigger::intranode {
namespace {

// An MPI of threads.
template <class T>
class FakeMpi {
 public:
  // The tree by which member `member` gets element `element` in its call number `call`.
  using Order = std::function<const ScalarTree&(std::size_t element, std::size_t call, std::size_t member)>;
  // In place of a node's operation, which is of type T.
  using Combine = std::function<T(ReduceOperation, T, T)>;

  FakeMpi(std::size_t members, Order order)
      : order_(std::move(order)), sent_(members), meet_(static_cast<std::ptrdiff_t>(members)) {}

  NativeReduction native(const Learning& learning) {
    return [this, learning, call = std::size_t{0}](const std::byte* contribution, std::byte* result) mutable {
      sent_[learning.member] = reinterpret_cast<const T*>(contribution);
      meet_.arrive_and_wait();
      for (std::size_t k = 0; k < learning.returned; ++k) {
        const std::size_t t = learning.first + k;
        const T value =
            order_(t, call, learning.member).template value<T>(learning.reduction.operation, [&](std::size_t i) {
              return sent_[i][t];
            });
        std::memcpy(result + k * sizeof(T), &value, sizeof(T));
      }
      ++call;
      ++calls_[learning.member];
      meet_.arrive_and_wait();
      return true;
    };
  }
  [[nodiscard]] std::size_t calls(std::size_t member) const { return calls_[member]; }

 private:
  Order order_;
  std::vector<const T*> sent_;
  std::array<std::size_t, SumTree::kMostMembers> calls_{};
  std::barrier<> meet_;
};

void on_all(std::size_t members, const std::function<void(std::size_t)>& each) {
  std::vector<std::jthread> threads;
  for (std::size_t member = 0; member < members; ++member) threads.emplace_back(each, member);
}

// By member.
template <class T>
std::vector<Learned> learned_by(std::size_t members, const typename FakeMpi<T>::Order& order,
                                const std::function<Learning(std::size_t)>& learning) {
  FakeMpi<T> mpi(members, order);
  std::vector<Learned> all(members);
  on_all(members, [&](std::size_t member) { all[member] = learn(mpi.native(learning(member)), learning(member)); });
  for (std::size_t member = 0; member < members; ++member)
    EXPECT_EQ(mpi.calls(member), learning_calls(learning(member)));
  return all;
}

template <class T>
std::vector<Learned> learned_by(const ScalarTree& tree, ReduceOperation operation, std::size_t elements) {
  return learned_by<T>(
      tree.members, [&](auto...) -> const ScalarTree& { return tree; },
      [&](std::size_t member) {
        return Learning::allreduce(member, tree.members, {operation, kType<T>}, elements);
      });
}

// Operands of sums and products in the order that the learner gives them: the least member is on the left.
std::string shape(const SumTree& tree) {
  std::function<std::pair<std::size_t, std::string>(std::size_t)> of = [&](std::size_t operand) {
    if (operand < tree.members()) return std::pair(operand, std::to_string(operand));
    const auto node = tree.nodes()[operand - tree.members()];
    auto left = of(node.left);
    auto right = of(node.right);
    if (right.first < left.first) std::swap(left, right);
    return std::pair(left.first, "(" + left.second + "," + right.second + ")");
  };
  return of(tree.members() + tree.nodes().size() - 1).second;
}

template <class T>
void expect_learned(const ScalarTree& tree, ReduceOperation operation, std::size_t elements) {
  for (const Learned& learned : learned_by<T>(tree, operation, elements)) {
    ASSERT_EQ(name_of(learned.refusal), "none") << tree.tree().text() << " " << name_of(operation) << " " << elements;
    ASSERT_EQ(learned.order->text(), shape(tree.tree())) << name_of(operation);
  }
}

std::vector<ScalarTree> all_trees(std::size_t members) {
  std::mt19937_64 random(members);
  std::vector<ScalarTree> all{recursive_doubling(members, false),
                              recursive_doubling(members, true),
                              linear_from(members, 0),
                              linear_from(members, members / 2),
                              reversed(members),
                              k_ary(members, 3),
                              k_ary(members, 4)};
  for (int i = 0; i < 3; ++i) all.push_back(random_tree(members, random));
  return all;
}

constexpr std::array kOperations{ReduceOperation::sum, ReduceOperation::prod};

class Members : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(TwoToSixteen, Members, testing::Range<std::size_t>(2, 17));

TEST_P(Members, LearnTheTree) {
  std::size_t turn = 0;
  for (const ScalarTree& tree : all_trees(GetParam())) {
    for (const ReduceOperation operation : kOperations) {
      ++turn;
      const std::size_t elements = turn % 5 == 0 ? 1 : 1 + turn * 37 % 300;
      turn % 4 < 2 ? expect_learned<double>(tree, operation, elements)
                   : expect_learned<float>(tree, operation, elements);
    }
  }
}

TEST(Learner, LearnsLongDoublesAndComplexNumbers) {
  for (const ReduceOperation operation : kOperations) expect_learned<long double>(k_ary(7, 3), operation, 10);
  const ScalarTree tree = reversed(5);
  // Twice as many parts, which the fake takes for doubles.
  FakeMpi<double> mpi(5, [&](auto...) -> const ScalarTree& { return tree; });
  on_all(5, [&](std::size_t member) {
    const Reduction complex{ReduceOperation::sum, ElementType::complex_double};
    const Learned learned =
        learn(mpi.native(Learning::allreduce(member, 5, {ReduceOperation::sum, ElementType::float64}, 14)),
              Learning::allreduce(member, 5, complex, 7));
    EXPECT_EQ(learned.refusal, SumRefusal::none);
    EXPECT_TRUE(learned.order && learned.order->text() == shape(tree.tree()));
  });
}

TEST(Learner, LearnsFortyMembers) {
  std::mt19937_64 random(40);
  const ScalarTree tree = random_tree(40, random);
  for (const ReduceOperation operation : kOperations) expect_learned<double>(tree, operation, 500);
  EXPECT_LT(learning_calls(Learning::allreduce(0, 40, {ReduceOperation::sum, ElementType::float64}, 500)), 300U);
}

void expect_refused(std::size_t members, std::size_t elements, const FakeMpi<double>::Order& order,
                    ReduceOperation operation, SumRefusal refusal) {
  const auto all = learned_by<double>(members, order, [&](std::size_t member) {
    return Learning::allreduce(member, members, {operation, ElementType::float64}, elements);
  });
  for (const Learned& learned : all) {
    EXPECT_EQ(name_of(learned.refusal), name_of(refusal)) << members << " " << name_of(operation);
    EXPECT_FALSE(learned.order);
  }
}

// The ring's: each segment begins at another member.
TEST_P(Members, LearnARing) {
  const std::size_t members = GetParam();
  std::vector<ScalarTree> starts;
  for (std::size_t start = 0; start < members; ++start) starts.push_back(linear_from(members, start));
  const auto ring = [&](std::size_t element, std::size_t, std::size_t) -> const ScalarTree& {
    return starts[element * members / 211];
  };
  for (const ReduceOperation operation : kOperations) {
    const auto all = learned_by<double>(members, ring, [&](std::size_t member) {
      return Learning::allreduce(member, members, {operation, ElementType::float64}, 211);
    });
    for (const Learned& learned : all) {
      if (members > 11 && operation == ReduceOperation::prod) {
        EXPECT_EQ(name_of(learned.refusal), "varies");
        continue;
      }
      ASSERT_TRUE(learned.order) << members << name_of(learned.refusal);
      if (members > 3) {
        EXPECT_EQ(learned.order->parts().size(), members);
      }
      std::size_t part = 0;
      for (std::size_t element = 0; element < 211; ++element) {
        if (element == learned.order->parts()[part].end) ++part;
        EXPECT_EQ(learned.order->parts()[part].tree.text(), shape(ring(element, 0, 0).tree())) << element;
      }
    }
  }
}

TEST_P(Members, LearnOneElementThatDiffers) {
  const std::size_t members = GetParam();
  if (members == 2) return;
  const ScalarTree tree = linear_from(members, 0);
  const ScalarTree other = linear_from(members, 1);
  const auto order = [&](std::size_t element, std::size_t, std::size_t) -> const ScalarTree& {
    return element == 234 ? other : tree;
  };
  const auto all = learned_by<double>(members, order, [&](std::size_t member) {
    return Learning::allreduce(member, members, {ReduceOperation::sum, ElementType::float64}, 300);
  });
  const std::string usual = shape(tree.tree());
  for (const Learned& learned : all)
    EXPECT_EQ(learned.order->text(), "234:" + usual + ";235:" + shape(other.tree()) + ";" + usual);
}

TEST_P(Members, RefuseManyParts) {
  const std::size_t members = GetParam();
  if (members == 2) return;
  const ScalarTree tree = linear_from(members, 0);
  const ScalarTree other = linear_from(members, 1);
  const auto order = [&](std::size_t element, std::size_t, std::size_t) -> const ScalarTree& {
    return element / 2 % 2 == 0 ? other : tree;
  };
  expect_refused(members, 200, order, ReduceOperation::sum, SumRefusal::varies);
}

// Too many members for each element to have every probe.
TEST(Learner, RefusesPartsOfManyMembers) {
  const ScalarTree tree = linear_from(20, 0);
  const ScalarTree other = linear_from(20, 1);
  const auto order = [&](std::size_t element, std::size_t, std::size_t) -> const ScalarTree& {
    return element < 150 ? other : tree;
  };
  expect_refused(20, 300, order, ReduceOperation::sum, SumRefusal::varies);
}

TEST_P(Members, RefuseWhatDoesNotRepeat) {
  const std::size_t members = GetParam();
  if (members == 2) return;
  std::mt19937_64 random(members);
  std::vector<ScalarTree> trees;
  for (int i = 0; i < 100; ++i) trees.push_back(linear_from(members, random() % members));
  const auto order = [&](std::size_t, std::size_t call, std::size_t) -> const ScalarTree& {
    return trees[call % trees.size()];
  };
  const auto all = learned_by<double>(members, order, [&](std::size_t member) {
    return Learning::allreduce(member, members, {ReduceOperation::sum, ElementType::float64}, 1);
  });
  for (const Learned& learned : all) EXPECT_NE(learned.refusal, SumRefusal::none);
}

// Right until the last vector.
TEST(Learner, RefusesALateChange) {
  const ScalarTree tree = recursive_doubling(8, false);
  const ScalarTree other = linear_from(8, 0);
  const std::size_t calls = learning_calls(Learning::allreduce(0, 8, {ReduceOperation::sum, ElementType::float64}, 50));
  const auto order = [&](std::size_t, std::size_t call, std::size_t) -> const ScalarTree& {
    return call + 1 == calls ? other : tree;
  };
  expect_refused(8, 50, order, ReduceOperation::sum, SumRefusal::other_bits);
}

// Members that disagree make the same calls all the same: the caller compares the trees.
TEST(Learner, GivesEachMemberItsOwnTree) {
  const ScalarTree tree = recursive_doubling(6, false);
  const ScalarTree other = reversed(6);
  const auto all = learned_by<double>(
      6, [&](std::size_t, std::size_t, std::size_t member) -> const ScalarTree& { return member == 2 ? other : tree; },
      [&](std::size_t member) {
        return Learning::allreduce(member, 6, {ReduceOperation::sum, ElementType::float64}, 3);
      });
  for (std::size_t member = 0; member < 6; ++member)
    EXPECT_EQ(all[member].order->text(), shape(member == 2 ? other.tree() : tree.tree()));
}

// An MPI of one number at a time for members that compute all contributions themselves.
template <class T>
Learned learned_alone(std::size_t members, ReduceOperation operation, std::size_t elements,
                      const std::function<T(const std::function<T(std::size_t)>&)>& value) {
  std::vector<const T*> sent(members);
  std::barrier meet(static_cast<std::ptrdiff_t>(members));
  std::vector<Learned> all(members);
  on_all(members, [&](std::size_t member) {
    const NativeReduction native = [&, member](const std::byte* contribution, std::byte* result) {
      sent[member] = reinterpret_cast<const T*>(contribution);
      meet.arrive_and_wait();
      for (std::size_t t = 0; t < elements; ++t) {
        const T sum = value([&](std::size_t i) { return sent[i][t]; });
        std::memcpy(result + t * sizeof(T), &sum, sizeof(T));
      }
      meet.arrive_and_wait();
      return true;
    };
    all[member] = learn(native, Learning::allreduce(member, members, {operation, kType<T>}, elements));
  });
  return all.front();
}

TEST(Learner, RefusesAnotherPrecision) {
  const auto in_double = [](const std::function<float(std::size_t)>& of) {
    return static_cast<float>((static_cast<double>(of(0)) + of(1)) + (static_cast<double>(of(2)) + of(3)));
  };
  const auto product = [](const std::function<float(std::size_t)>& of) {
    return static_cast<float>(static_cast<double>(of(0)) * of(1) * of(2) * of(3));
  };
  EXPECT_EQ(learned_alone<float>(4, ReduceOperation::sum, 100, in_double).refusal, SumRefusal::other_bits);
  EXPECT_NE(learned_alone<float>(4, ReduceOperation::prod, 100, product).refusal, SumRefusal::none);
}

TEST(Learner, RefusesAZeroAtTheBegin) {
  const auto from_zero = [](const std::function<double(std::size_t)>& of) { return 0.0 + of(0) + of(1) + of(2); };
  EXPECT_EQ(learned_alone<double>(3, ReduceOperation::sum, 100, from_zero).refusal, SumRefusal::other_bits);
}

// Vectors alone show it: two members have no probes.
TEST(Learner, RefusesOtherBitsOfTwoMembers) {
  using Of = std::function<double(std::size_t)>;
  const auto plain = [](const Of& of) { return of(1) + of(0); };
  const auto from_zero = [](const Of& of) { return 0.0 + of(0) + of(1); };
  const auto in_float = [](const Of& of) { return static_cast<double>(static_cast<float>(of(0) + of(1))); };
  const auto upward = [](const Of& of) {
    std::fesetround(FE_UPWARD);
    const volatile double sum = of(0) + of(1);
    std::fesetround(FE_TONEAREST);
    return static_cast<double>(sum);
  };
  const auto flushed = [](const Of& of) {
    const double sum = of(0) + of(1);
    return std::fpclassify(sum) == FP_SUBNORMAL ? 0.0 : sum;
  };
  for (const std::size_t elements : {1U, 2U, 3U, 100U, 1000U}) {
    const auto learn = [&](const auto& sum) {
      return learned_alone<double>(2, ReduceOperation::sum, elements, sum).refusal;
    };
    EXPECT_EQ(learn(plain), SumRefusal::none) << elements;
    EXPECT_EQ(learn(from_zero), SumRefusal::other_bits) << elements;
    EXPECT_EQ(learn(in_float), SumRefusal::other_bits) << elements;
    EXPECT_EQ(learn(upward), SumRefusal::other_bits) << elements;
    EXPECT_EQ(learn(flushed), SumRefusal::other_bits) << elements;
  }
  EXPECT_LE(learning_calls(Learning::allreduce(0, 2, {ReduceOperation::sum, ElementType::float64}, 100)), 8U);
}

TEST(Learner, NeedsNoCallForMaxima) {
  const NativeReduction never = [](const std::byte*, std::byte*) { return ADD_FAILURE() << "called", false; };
  const auto learning = Learning::allreduce(0, 4, {ReduceOperation::max, ElementType::float64}, 10);
  EXPECT_EQ(learning_calls(learning), 0U);
  EXPECT_EQ(learn(never, learning).order, SumOrder(SumTree::linear(4)));
}

// A scan has a tree for each prefix; here, the linear one.
TEST(Learner, LearnsTheTreeOfEachPrefix) {
  for (const ReduceOperation operation : kOperations) {
    for (const bool exclusive : {false, true}) {
      std::vector<ScalarTree> trees;
      for (std::size_t members = 1; members <= 7; ++members) trees.push_back(linear_from(members, 0));
      const auto summed = [&](std::size_t member) { return exclusive ? member : member + 1; };
      const auto all = learned_by<double>(
          7,
          [&](std::size_t, std::size_t, std::size_t member) -> const ScalarTree& {
            return trees[std::max<std::size_t>(summed(member), 1) - 1];
          },
          [&](std::size_t member) {
            return Learning{member, 7, {operation, ElementType::float64}, 9, summed(member), 0, 9, true};
          });
      for (std::size_t member = 0; member < 7; ++member) {
        ASSERT_EQ(all[member].refusal, SumRefusal::none) << member;
        EXPECT_EQ(all[member].order, SumOrder(SumTree::linear(std::max<std::size_t>(summed(member), 1))));
      }
    }
  }
}

TEST(Learner, LearnsAtTheRoot) {
  const ScalarTree tree = reversed(6);
  const auto all = learned_by<double>(
      6, [&](auto...) -> const ScalarTree& { return tree; },
      [&](std::size_t member) {
        const std::size_t returned = member == 3 ? 20U : 0U;
        return Learning{member, 6, {ReduceOperation::sum, ElementType::float64}, 20, 6, 0, returned, true};
      });
  for (std::size_t member = 0; member < 6; ++member) {
    EXPECT_EQ(all[member].refusal, SumRefusal::none);
    ASSERT_TRUE(all[member].order);
    EXPECT_EQ(all[member].order->text(), shape(member == 3 ? tree.tree() : SumTree::linear(6)));
  }
}

// Reduce_scatter by a ring: another tree for each block.
TEST(Learner, LearnsTheTreeOfEachBlock) {
  std::vector<ScalarTree> trees;
  for (std::size_t start = 0; start < 5; ++start) trees.push_back(linear_from(5, start));
  const std::array<std::size_t, 6> starts{0, 3, 3, 2000, 2001, 2100};  // one has none
  const auto all = learned_by<double>(
      5, [&](std::size_t, std::size_t, std::size_t member) -> const ScalarTree& { return trees[member]; },
      [&](std::size_t member) {
        const std::size_t returned = starts[member + 1] - starts[member];
        return Learning{member,   5,    {ReduceOperation::sum, ElementType::float64}, 2100, 5, starts[member],
                        returned, false};
      });
  for (std::size_t member = 0; member < 5; ++member) {
    EXPECT_EQ(all[member].refusal, SumRefusal::none);
    ASSERT_TRUE(all[member].order);
    EXPECT_EQ(all[member].order->text(), member == 1 ? shape(SumTree::linear(5)) : shape(trees[member].tree()));
  }
}

TEST(Learner, VerifiesATree) {
  const ScalarTree tree = k_ary(5, 3);
  FakeMpi<float> mpi(5, [&](auto...) -> const ScalarTree& { return tree; });
  on_all(5, [&](std::size_t member) {
    const auto learning = Learning::allreduce(member, 5, {ReduceOperation::prod, ElementType::float32}, 64);
    const auto native = mpi.native(learning);
    EXPECT_EQ(verify(native, learning, SumOrder(tree.tree()), 7, 3), SumRefusal::none);
    EXPECT_EQ(verify(native, learning, SumOrder(SumTree::linear(5)), 7, 1), SumRefusal::other_bits);
    EXPECT_EQ(verify(native, learning, SumOrder(SumTree::balanced(4)), 7, 1), SumRefusal::other_bits);
    EXPECT_EQ(mpi.calls(member), 5U);
  });
}

// Between nodes: the MPI's result beside that of another way, and a part of the members that learns its own order.
template <class T>
class TwoWays : public testing::Test {};
using Types = testing::Types<float, double, long double>;
TYPED_TEST_SUITE(TwoWays, Types);

TYPED_TEST(TwoWays, AreCompared) {
  const ScalarTree tree = k_ary(5, 3);
  const ScalarTree other = linear_from(5, 0);
  for (const ReduceOperation operation : {ReduceOperation::sum, ReduceOperation::prod}) {
    FakeMpi<TypeParam> mpi(5, [&](auto...) -> const ScalarTree& { return tree; });
    FakeMpi<TypeParam> same(5, [&](auto...) -> const ScalarTree& { return tree; });
    FakeMpi<TypeParam> differs(5, [&](auto...) -> const ScalarTree& { return other; });
    on_all(5, [&](std::size_t member) {
      const auto learning = Learning::allreduce(member, 5, {operation, kType<TypeParam>}, 3);
      EXPECT_EQ(compare(mpi.native(learning), same.native(learning), learning, 0, 20), SumRefusal::none);
      EXPECT_EQ(compare(mpi.native(learning), differs.native(learning), learning, 20, 20), SumRefusal::other_bits);
      EXPECT_EQ(mpi.calls(member), 40U);
    });
  }
}

TYPED_TEST(TwoWays, LearnBesideNeutralContributions) {
  ScalarTreeBuilder builder(5);
  builder.join(builder.join(0, 3), builder.join(builder.join(1, 4), 2));
  const ScalarTree tree = builder.done();
  for (const ReduceOperation operation : {ReduceOperation::sum, ReduceOperation::prod}) {
    constexpr std::size_t kElements = 30;
    FakeMpi<TypeParam> mpi(5, [&](auto...) -> const ScalarTree& { return tree; });
    on_all(5, [&](std::size_t member) {
      const Reduction reduction{operation, kType<TypeParam>};
      const auto learning = Learning::allreduce(member, 3, reduction, kElements);
      NativeReduction native = mpi.native(learning);
      if (member < 3) {
        const Learned learned = learn(native, learning);
        ASSERT_EQ(learned.refusal, SumRefusal::none);
        EXPECT_EQ(learned.order->text(), "(0,(1,2))");
        return;
      }
      const std::vector<std::byte> neutral = neutral_vector(reduction, kElements);
      std::vector<std::byte> result(neutral.size());
      for (std::size_t call = 0; call < learning_calls(learning); ++call)
        ASSERT_TRUE(native(neutral.data(), result.data()));
    });
  }
}

TYPED_TEST(TwoWays, MarksAreInResults) {
  for (const ReduceOperation operation : {ReduceOperation::sum, ReduceOperation::prod}) {
    const Reduction reduction{operation, kType<TypeParam>};
    const std::vector<std::byte> none = marked_element(reduction, false);
    const std::vector<std::byte> mark = marked_element(reduction, true);
    for (std::size_t marks = 0; marks <= 3; ++marks) {
      std::vector<const std::byte*> contributions;
      for (std::size_t node = 0; node < 3; ++node) contributions.push_back(node < marks ? mark.data() : none.data());
      std::vector<std::byte> result(none.size());
      ASSERT_EQ(evaluate(SumTree::balanced(3), reduction, contributions, result.data(), 1), Bits::exact);
      EXPECT_EQ(is_marked(reduction, result), marks > 0) << marks;
    }
  }
}

TEST(Learner, RefusesWhatItCannotLearn) {
  const NativeReduction never = [](const std::byte*, std::byte*) { return ADD_FAILURE() << "called", false; };
  const Reduction sum{ReduceOperation::sum, ElementType::float64};
  for (const Learning& learning : {Learning::allreduce(0, 65, sum, 10), Learning::allreduce(0, 4, sum, 0),
                                   Learning::allreduce(0, 4, {ReduceOperation::prod, ElementType::complex_float}, 10),
                                   Learning::allreduce(0, 4, {ReduceOperation::sum, ElementType::int32}, 10)}) {
    EXPECT_EQ(learning_calls(learning), 0U);
    EXPECT_EQ(learn(never, learning).refusal, SumRefusal::unsupported);
    EXPECT_EQ(verify(never, learning, SumOrder(SumTree::balanced(4)), 0, 1), SumRefusal::unsupported);
  }
  const NativeReduction fails = [](const std::byte*, std::byte*) { return false; };
  EXPECT_EQ(learn(fails, Learning::allreduce(0, 4, sum, 10)).refusal, SumRefusal::native_failed);
}

// M + 1 is more than M there: nothing is learned, and nothing wrong.
TEST(Learner, RefusesOtherRounding) {
  const auto upward = [](const std::function<double(std::size_t)>& of) {
    std::fesetround(FE_UPWARD);
    const volatile double all = (of(0) + of(1)) + of(2);
    std::fesetround(FE_TONEAREST);
    return static_cast<double>(all);
  };
  EXPECT_EQ(learned_alone<double>(3, ReduceOperation::sum, 100, upward).refusal, SumRefusal::no_tree);
}

// Programs may trap what probes do, and read the flags of what they did themselves.
TEST(Learner, LeavesTheProgramsFloatingPointEnvironment) {
  std::feclearexcept(FE_ALL_EXCEPT);
  std::feraiseexcept(FE_DIVBYZERO);
#if defined(__x86_64__)
  feenableexcept(FE_INVALID | FE_OVERFLOW);
#endif
  const NativeReduction alone = [](const std::byte* contribution, std::byte* result) {
    double value;
    std::memcpy(&value, contribution, sizeof(value));
    const volatile double much = 1e308;
    static_cast<void>(much * much);
    std::memcpy(result, &value, sizeof(value));
    return true;
  };
  const Learned learned = learn(alone, Learning::allreduce(0, 1, {ReduceOperation::sum, ElementType::float64}, 1));
#if defined(__x86_64__)
  EXPECT_EQ(fegetexcept(), FE_INVALID | FE_OVERFLOW);
  fedisableexcept(FE_ALL_EXCEPT);
#endif
  EXPECT_EQ(learned.order, SumOrder(SumTree::balanced(1)));
  EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), FE_DIVBYZERO);
}

}  // namespace
}  // namespace outrigger::intranode
