#include "heap/ranges.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace outrigger::heap {
namespace {

struct Pair {
  std::uintptr_t begin;
  std::uintptr_t end;
  bool operator==(const Pair&) const = default;
};

std::vector<Pair> in(const RangeSet& set) {
  std::vector<Pair> pairs;
  for (const Range& range : set.ranges()) pairs.push_back({range.begin, range.end});
  return pairs;
}

TEST(RangeSet, IsSortedAndJoinsWhatOverlaps) {
  RangeSet set;
  set.add({50, 60});
  set.add({10, 20});
  set.add({30, 40});
  set.add({60, 70});  // beside one of them: another range
  EXPECT_EQ(in(set), (std::vector<Pair>{{10, 20}, {30, 40}, {50, 60}, {60, 70}}));
  set.add({15, 35});
  EXPECT_EQ(in(set), (std::vector<Pair>{{10, 40}, {50, 60}, {60, 70}}));
  set.add({0, 100});
  EXPECT_EQ(in(set), (std::vector<Pair>{{0, 100}}));
  set.clear();
  EXPECT_TRUE(set.ranges().empty());
}

TEST(RangeSet, WhenItIsFullTheLastTwoBecomeOne) {
  RangeSet set;
  for (std::uintptr_t i = 0; i < RangeSet::kMost; ++i) set.add({10 * i, 10 * i + 5});
  set.add({7, 9});
  ASSERT_EQ(set.ranges().size(), RangeSet::kMost);
  const Range last = set.ranges().back();
  EXPECT_LE(last.begin, 10 * (RangeSet::kMost - 1));
  EXPECT_EQ(last.end, 10 * (RangeSet::kMost - 1) + 5);
  for (std::uintptr_t i = 0; i < RangeSet::kMost; ++i) {
    const Range all{10 * i, 10 * i + 5};
    bool held = false;
    for (const Range& range : set.ranges()) held = held || (range.begin <= all.begin && all.end <= range.end);
    EXPECT_TRUE(held) << i;
  }
}

}  // namespace
}  // namespace outrigger::heap
