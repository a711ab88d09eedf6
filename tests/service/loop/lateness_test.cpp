#include "service/loop/lateness.hpp"

#include <gtest/gtest.h>

namespace outrigger::service {
namespace {

constexpr GroupId kLateGroup{1, 2};

OperationId nth(std::uint64_t sequence) {
  return {kLateGroup, sequence};
}

TEST(Lateness, IsRelativeToTheFirstRankOfTheGroup) {
  Lateness lateness;
  EXPECT_FALSE(lateness.listens());
  EXPECT_EQ(lateness.posted(nth(0), 100), 0U);
  EXPECT_EQ(lateness.posted(nth(0), 130), 30U);
  EXPECT_EQ(lateness.posted(nth(1), 140), 0U);
  EXPECT_EQ(lateness.posted(nth(0), 150), 50U);
  EXPECT_TRUE(lateness.listens());
}

TEST(Lateness, RemoteRankMayBeTheFirst) {
  Lateness lateness;
  lateness.announced(nth(0), 50);  // of a group in which no local rank wants times
  EXPECT_EQ(lateness.posted(nth(0), 100), 0U);
  lateness.announced(nth(1), 200);
  lateness.announced(nth(1), 220);
  EXPECT_EQ(lateness.posted(nth(1), 250), 50U);
}

TEST(Lateness, VeryLateCountsAsInTime) {
  Lateness lateness;
  for (std::uint64_t sequence = 0; sequence <= Lateness::kOperationsOfAGroup; ++sequence) {
    EXPECT_EQ(lateness.posted(nth(sequence), 100), 0U);
  }
  EXPECT_EQ(lateness.posted(nth(0), 900), 0U);
  EXPECT_EQ(lateness.posted(nth(1), 900), 800U);
}

TEST(Lateness, GroupsAreLimitedAndDropped) {
  Lateness lateness;
  for (std::uint64_t group = 0; group < Lateness::kMostGroups; ++group) {
    EXPECT_EQ(lateness.posted({GroupId{group, 7}, 0}, 100), 0U);
  }
  EXPECT_EQ(lateness.posted(nth(0), 100), 0U);
  EXPECT_EQ(lateness.posted(nth(0), 150), 0U);  // no room
  lateness.forget(GroupId{3, 7});
  EXPECT_EQ(lateness.posted(nth(0), 200), 0U);
  EXPECT_EQ(lateness.posted(nth(0), 250), 50U);
}

}  // namespace
}  // namespace outrigger::service
