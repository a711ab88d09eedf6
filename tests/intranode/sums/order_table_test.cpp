#include "intranode/sums/order_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

namespace outrigger::intranode {
namespace {

constexpr Reduction kSum{ReduceOperation::sum, ElementType::float64};

OrderKey key_of(std::uint64_t elements) {
  return {"allreduce", 4, kSum, elements};
}

Learning learning_of(std::uint64_t elements) {
  return Learning::allreduce(0, 4, kSum, elements);
}

OrderTable::Next next(OrderTable& table, std::uint64_t elements) {
  return table.next(key_of(elements), learning_of(elements));
}

// Calls with as many elements, until one learns. The table finds nothing in files.
std::uint64_t calls_until_learning(OrderTable& table, std::uint64_t elements) {
  for (std::uint64_t call = 1; call < 1'000'000; ++call) {
    const auto step = next(table, elements);
    if (step.step == OrderStep::look_up) OrderTable::not_found(*step.entry);
    if (step.step != OrderStep::learn) continue;
    OrderTable::settle(*step.entry, SumOrder(SumTree::balanced(4)), SumRefusal::none);
    return call;
  }
  return 0;
}

std::uint64_t calls_for(std::uint64_t elements, std::uint64_t times) {
  return times * learning_time(learning_of(elements)) / time_of_call(learning_of(elements));
}

TEST(Table, LooksUpOnce) {
  OrderTable table;
  for (std::uint64_t call = 1; call <= OrderTable::kLookUpAfter; ++call)
    ASSERT_EQ(next(table, 8).step, OrderStep::native) << call;
  const auto look_up = next(table, 8);
  ASSERT_EQ(look_up.step, OrderStep::look_up);
  OrderTable::not_found(*look_up.entry);
  EXPECT_EQ(next(table, 8).step, OrderStep::native);
}

TEST(Table, LearnsShortVectorsOfRepeatedCalls) {
  OrderTable table;
  const std::uint64_t calls = calls_until_learning(table, 8);
  EXPECT_GE(calls, calls_for(8, OrderTable::kCallsOfKey));
  EXPECT_LT(calls, calls_for(8, OrderTable::kCallsOfKey) * 5 / 4);
  const auto use = next(table, 8);
  ASSERT_EQ(use.step, OrderStep::use);
  EXPECT_EQ(use.entry->order, SumOrder(SumTree::balanced(4)));
  // Other numbers of elements have their own trees.
  EXPECT_EQ(next(table, 9).step, OrderStep::native);
}

constexpr std::uint64_t kLong = 1'000'000;

TEST(Table, LearnsLongVectorsAfterManyCalls) {
  OrderTable table;
  const std::uint64_t calls = calls_until_learning(table, kLong);
  EXPECT_GE(calls, calls_for(kLong, OrderTable::kCallsForEach));
  EXPECT_LT(calls, calls_for(kLong, OrderTable::kCallsForEach) * 5 / 4);
}

TEST(Table, CountsCallsOfOtherLengths) {
  OrderTable table;
  for (std::uint64_t call = 0; call < 20 * calls_for(kLong, 1); ++call) {
    const auto step = next(table, kLong + 1);
    if (step.step == OrderStep::look_up) OrderTable::not_found(*step.entry);
    if (step.step == OrderStep::learn) OrderTable::settle(*step.entry, std::nullopt, SumRefusal::varies);
  }
  const std::uint64_t calls = calls_until_learning(table, kLong);
  EXPECT_GE(calls, calls_for(kLong, OrderTable::kCallsOfKey));
  EXPECT_LT(calls, calls_for(kLong, OrderTable::kCallsForEach));
}

// Also where keys are forgotten.
TEST(Table, LearnsForAFractionOfAllTime) {
  OrderTable table;
  std::uint64_t time = 0;
  std::uint64_t learning = 0;
  std::uint64_t learned = 0;
  for (std::uint64_t elements = 1; elements < 3 * OrderTable::kMostKeys; ++elements) {
    for (std::uint64_t call = 0; call < 300; ++call) {
      const auto step = next(table, 100 * elements);
      time += time_of_call(learning_of(100 * elements));
      if (step.step == OrderStep::look_up) OrderTable::not_found(*step.entry);
      if (step.step != OrderStep::learn) continue;
      learning += learning_time(learning_of(100 * elements));
      ++learned;
      OrderTable::settle(*step.entry, SumOrder(SumTree::balanced(4)), SumRefusal::none);
      ASSERT_LE(learning, std::max(OrderTable::kFree, time / OrderTable::kCallsForEach));
    }
  }
  EXPECT_GT(learned, OrderTable::kMostKeys / 2);
}

TEST(Table, IsNativeForGoodAfterARefusal) {
  OrderTable table(true);
  const auto look_up = next(table, 8);
  ASSERT_EQ(look_up.step, OrderStep::look_up);
  OrderTable::not_found(*look_up.entry);
  const auto learn = next(table, 8);
  ASSERT_EQ(learn.step, OrderStep::learn);
  OrderTable::settle(*learn.entry, std::nullopt, SumRefusal::varies);
  for (int call = 0; call < 1000; ++call) ASSERT_EQ(next(table, 8).step, OrderStep::native);
  EXPECT_EQ(name_of(table.entries().front().refusal), "varies");
}

TEST(Table, IsNativeWhereNothingCanBeLearned) {
  OrderTable table(true);
  for (int call = 0; call < 100; ++call)
    ASSERT_EQ(table.next({"allreduce", 99, kSum, 8}, Learning::allreduce(0, 99, kSum, 8)).step, OrderStep::native);
}

TEST(Table, UsesMaximaAtOnce) {
  OrderTable table;
  const Reduction max{ReduceOperation::max, ElementType::float32};
  const auto first = table.next({"scan@2", 4, max, 8}, {2, 4, max, 8, 3, 0, 8, true});
  ASSERT_EQ(first.step, OrderStep::use);
  EXPECT_EQ(first.entry->order->members(), 3U);
}

TEST(Table, IsNativeForGoodAfterManyNaNs) {
  OrderTable table;
  OrderTable::settle(*next(table, 8).entry, SumOrder(SumTree::linear(4)), SumRefusal::none);
  for (std::uint32_t call = 0; call < OrderTable::kMostAsked; ++call) {
    const auto use = next(table, 8);
    ASSERT_EQ(use.step, OrderStep::use);
    OrderTable::asked(*use.entry);
  }
  EXPECT_EQ(next(table, 8).step, OrderStep::native);
  EXPECT_EQ(name_of(table.entries().front().refusal), "nans");
}

TEST(Table, VerifiesNowAndThen) {
  OrderTable table;
  OrderTable::settle(*next(table, 8).entry, SumOrder(SumTree::linear(4)), SumRefusal::none);
  std::uint64_t uses = 0;
  std::uint64_t before = 0;
  for (int time = 0; time < 3; ++time, before = uses, uses = 0) {
    auto step = next(table, 8);
    for (; step.step == OrderStep::use; ++uses) step = next(table, 8);
    ASSERT_EQ(step.step, OrderStep::verify);
    ASSERT_GT(uses, 3 * before);
    OrderTable::verified(*step.entry);
  }
  while (next(table, 8).step == OrderStep::use) {
  }
  OrderTable::settle(const_cast<OrderTable::Entry&>(table.entries().front()), std::nullopt, SumRefusal::other_bits);
  EXPECT_EQ(next(table, 8).step, OrderStep::native);
}

TEST(Table, LearnsNoVeryLongVectors) {
  OrderTable table(true);
  const std::uint64_t elements = OrderTable::kMostBytes / sizeof(double);
  EXPECT_EQ(next(table, elements).step, OrderStep::look_up);
  EXPECT_EQ(next(table, elements + 1).step, OrderStep::native);
}

// Members find entries in different ways: that must make no difference.
TEST(Table, CountsAlikeByPlaces) {
  OrderTable by_keys;
  OrderTable by_places;
  std::uint64_t state = 1;
  std::array<OrderTable::Place, OrderTable::kMostKeys + 20> places;
  int by_place = 0;
  for (int call = 0; call < 30'000; ++call) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t elements = 1 + (state >> 33) % places.size() / (call % 3 == 0 ? 1 : 20);
    const auto expected = next(by_keys, elements);
    OrderTable::Place& place = places.at(elements - 1);
    OrderTable::Entry* got = by_places.again_at(place);
    OrderStep step = got != nullptr && got->order ? OrderStep::use : OrderStep::native;
    if (got != nullptr) {
      by_places.count_at(place);
      ++by_place;
    } else {
      const OrderTable::Next next_one = next(by_places, elements);
      got = next_one.entry;
      step = next_one.step;
      place = by_places.place();
    }
    ASSERT_EQ(step, expected.step) << call;
    ASSERT_EQ(got->calls, expected.entry->calls) << call;
    ASSERT_EQ(got, &by_places.entries().front()) << call;
    if (step == OrderStep::look_up) {
      OrderTable::not_found(*expected.entry);
      OrderTable::not_found(*got);
    }
    if (expected.entry->settled || (step != OrderStep::learn && call % 50 != 0)) continue;
    OrderTable::settle(*expected.entry, SumOrder(SumTree::linear(4)), SumRefusal::none);
    OrderTable::settle(*got, SumOrder(SumTree::linear(4)), SumRefusal::none);
  }
  EXPECT_GT(by_place, 10'000);
}

TEST(Table, DropsTheLeastRecentlyUsed) {
  OrderTable table;
  OrderTable::settle(*next(table, 1000).entry, SumOrder(SumTree::balanced(4)), SumRefusal::none);
  OrderTable::settle(*next(table, 1).entry, SumOrder(SumTree::balanced(4)), SumRefusal::none);
  for (std::uint64_t elements = 2; elements < OrderTable::kMostKeys + 1; ++elements) {
    ASSERT_EQ(next(table, 1000).step, OrderStep::use);
    ASSERT_EQ(next(table, elements).step, OrderStep::native);
  }
  EXPECT_EQ(table.entries().size(), OrderTable::kMostKeys);
  EXPECT_EQ(next(table, 1000).step, OrderStep::use);
  EXPECT_EQ(next(table, 1).step, OrderStep::native);
  EXPECT_EQ(table.entries().size(), OrderTable::kMostKeys);
}

}  // namespace
}  // namespace outrigger::intranode
