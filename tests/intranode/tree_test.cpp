// Large teams in branches: what they do in two levels gives what one level gives.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "local_memory.hpp"
#include "random_calls.hpp"
#include "team_of_threads.hpp"

namespace outrigger::intranode {
namespace {

struct Shape {
  std::uint32_t members;
  std::size_t together;
};
constexpr std::array kShapes{Shape{3, 2}, Shape{5, 2}, Shape{9, 8}, Shape{16, 4}, Shape{17, 8}};
constexpr std::array kLargeShapes{Shape{32, 8}, Shape{64, 8}};

Branches branches_of(const Shape& shape) {
  return Branches::in_a_row(shape.members, shape.together);
}
// Not in a row: member m is in branch m mod n.
Branches in_turns(const Shape& shape) {
  std::vector<Branches::Mask> masks(branches_of(shape).count(), 0);
  for (std::uint32_t member = 0; member < shape.members; ++member)
    masks[member % masks.size()] |= Branches::Mask{1} << member;
  return Branches(masks);
}

TEST(TreeTest, ABarrierEndsWhenAllHaveEntered) {
  for (const Shape& shape : kShapes) {
    std::atomic<std::uint32_t> entered = 0;
    run_team(shape.members, [&](Team& team) {
      team.divide(in_turns(shape));
      ASSERT_EQ(team.open(), Outcome::done);
      for (std::uint32_t round = 1; round <= 50; ++round) {
        entered.fetch_add(1, std::memory_order_relaxed);
        ASSERT_EQ(team.barrier(), Outcome::done);
        ASSERT_GE(entered.load(std::memory_order_relaxed), round * shape.members);
      }
    });
  }
}

// Short calls in two levels and longer ones in one.
void make_random_calls(const Shape& shape, const Branches& branches, int calls, std::size_t most) {
  Bytes shared(shape.members);
  const std::size_t each = RandomCalls::buffer_bytes(shape.members, most);
  Bytes buffers(shape.members * each);
  run_team(shape.members, [&](Team& team) {
    team.divide(branches);
    LocalMemory memory(shape.members, buffers);
    ASSERT_EQ(team.open(memory), Outcome::done);
    memory.fail(team.rank(), 50);
    RandomCalls random(team, shape.members, most, shared.data(), std::span(buffers).subspan(team.rank() * each, each));
    for (int call = 0; call < calls; ++call) ASSERT_EQ(random.next(), "");
  });
}

TEST(TreeTest, RandomCallsGiveWhatTheyMust) {
  for (const Shape& shape : kShapes) {
    make_random_calls(shape, branches_of(shape), 200, 20'000);
    make_random_calls(shape, in_turns(shape), 200, 3'000);
  }
}

TEST(TreeTest, RandomCallsOfLargeTeamsGiveWhatTheyMust) {
  for (const Shape& shape : kLargeShapes) make_random_calls(shape, branches_of(shape), 40, 6'000);
}

Reduction reduction_of(ReduceOperation operation) {
  return {operation, ElementType::float64};
}

struct Reduced {
  std::vector<double> result;
  bool asks_native;
};
// One for each member. `flat`: without branches.
std::vector<Reduced> reduce_all(const Shape& shape, const SumOrder& order, const Reduction& reduction,
                                const std::vector<std::vector<double>>& given, bool flat) {
  std::vector<Reduced> all(shape.members);
  run_team(shape.members, [&](Team& team) {
    if (!flat) team.divide(branches_of(shape));
    ASSERT_EQ(team.open(), Outcome::done);
    const OrderCombine combine(reduction, order);
    const std::vector<double>& mine = given[team.rank()];
    std::vector<double> result(mine.size());
    const Outcome outcome = team.combine_by_all(CollectiveCall::allreduce, 0, std::as_bytes(std::span(mine)),
                                                std::as_writable_bytes(std::span(result)).data(), combine);
    ASSERT_EQ(outcome, Outcome::done);
    all[team.rank()] = {std::move(result), combine.asks_native()};
  });
  return all;
}

std::vector<std::vector<double>> random_numbers(std::uint32_t members, std::size_t elements, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<double>> all(members, std::vector<double>(elements));
  for (std::vector<double>& one : all) {
    for (double& value : one)
      value = std::ldexp(static_cast<double>(random() % 1000) - 500, static_cast<int>(random() % 60));
  }
  return all;
}

TEST(TreeTest, SumsHaveTheSameBitsInOneLevel) {
  for (const Shape& shape : kShapes) {
    for (const SumTree& tree : {SumTree::balanced(shape.members), SumTree::linear(shape.members)}) {
      const SumOrder order(tree);
      for (const std::size_t elements : {1U, 3U, 36U, 200U}) {
        const auto given = random_numbers(shape.members, elements, elements);
        const std::vector<Reduced> flat = reduce_all(shape, order, kDoubleSum, given, true);
        for (const Reduced& one : reduce_all(shape, order, kDoubleSum, given, false)) {
          EXPECT_EQ(one.result, flat.front().result) << shape.members << " members, " << elements << " elements";
          EXPECT_FALSE(one.asks_native);
        }
      }
    }
  }
}

// Each place of a NaN, as its own branch passes it on to the others.
TEST(TreeTest, AllMembersLearnOfANan) {
  for (const Shape& shape : {Shape{3, 2}, Shape{9, 8}, Shape{16, 4}}) {
    const SumOrder order(SumTree::balanced(shape.members));
    for (const ReduceOperation operation : {ReduceOperation::sum, ReduceOperation::min}) {
      for (std::uint32_t member = 0; member < shape.members; ++member) {
        auto given = random_numbers(shape.members, 5, member);
        given[member][member % 5] = std::numeric_limits<double>::quiet_NaN();
        for (const Reduced& one : reduce_all(shape, order, reduction_of(operation), given, false)) {
          EXPECT_TRUE(one.asks_native) << shape.members << " members, NaN of " << member;
        }
      }
    }
  }
}

TEST(TreeTest, ZerosOfBothSignsInDifferentBranchesAskTheNativeCall) {
  const Shape shape{9, 8};
  std::vector<std::vector<double>> given(shape.members, std::vector<double>(1, 0.0));
  given.back().front() = -0.0;
  const SumOrder order(SumTree::linear(shape.members));
  for (const Reduced& one : reduce_all(shape, order, reduction_of(ReduceOperation::max), given, false)) {
    EXPECT_TRUE(one.asks_native);
  }
}

// A leader that needs nothing of its members is ahead of them.
TEST(TreeTest, TheRootMayBeManyShortCallsAhead) {
  const Shape shape{4, 2};
  std::atomic<std::uint32_t> sent = 0;
  run_team(shape.members, [&](Team& team) {
    team.divide(branches_of(shape));
    ASSERT_EQ(team.open(), Outcome::done);
    if (team.rank() != 0) {
      while (sent.load() != kArrivals) std::this_thread::yield();
    }
    for (std::uint32_t call = 0; call < kArrivals; ++call) {
      const Bytes expected(kShortBytes, static_cast<std::byte>(call));
      Bytes buffer = team.rank() == 0 ? expected : Bytes(kShortBytes);
      ASSERT_EQ(team.broadcast(buffer, 0), Outcome::done);
      ASSERT_EQ(buffer, expected);
      if (team.rank() == 0) ++sent;
    }
  });
}

}  // namespace
}  // namespace outrigger::intranode
