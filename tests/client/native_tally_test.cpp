// Native calls of communicators: the rank's counts, and their use by a service process.
#include "client/operations/native_tally.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

namespace outrigger::client {
namespace {

struct NativeTallyTest : testing::Test {
  std::unique_ptr<void, decltype(&std::free)> memory{std::calloc(SegmentView::segment_bytes() / 4096, 4096),
                                                     &std::free};
  SegmentView segment{static_cast<std::byte*>(memory.get())};
  EndpointLock lock;
  NativeTallies tallies{lock, segment};

  [[nodiscard]] bool has_passed(const GroupId& group, std::uint64_t sequence, std::uint32_t calls_of_others) const {
    for (std::uint32_t i = 0; i < kNativeCallsEntries; ++i) {
      if (segment.native_calls(i).has_passed(OperationId{group, sequence}, calls_of_others)) return true;
    }
    return false;
  }
};

constexpr GroupId kOne{1, 2};
constexpr GroupId kOther{1, 3};

TEST_F(NativeTallyTest, AnOperationIsPassedByMoreCallsThanOthersHad) {
  NativeTally tally(tallies, kOne, 0);
  EXPECT_FALSE(has_passed(kOne, 0, 0));
  tally.count();
  EXPECT_TRUE(has_passed(kOne, 0, 0));
  EXPECT_FALSE(has_passed(kOne, 0, 1)) << "as many as the others";
  EXPECT_FALSE(has_passed(kOne, 1, 0)) << "it has yet to come to the one before";
  EXPECT_FALSE(has_passed(kOther, 0, 0));
  EXPECT_EQ(tally.post(0), 1U);
  EXPECT_FALSE(has_passed(kOne, 0, 0)) << "it has posted it";
  EXPECT_FALSE(has_passed(kOne, 1, 0)) << "calls are counted anew";
  tally.count();
  EXPECT_TRUE(has_passed(kOne, 1, 0));
}

TEST_F(NativeTallyTest, BeginsAtTheOperationThatIsNext) {
  NativeTally tally(tallies, kOne, (1U << 24) + 7);
  tally.count();
  EXPECT_TRUE(has_passed(kOne, (1U << 24) + 7, 0));
  EXPECT_FALSE(has_passed(kOne, (1U << 24) + 6, 0));
}

TEST_F(NativeTallyTest, WithoutNativeCallsNothingIsCounted) {
  NativeTally none;
  EXPECT_FALSE(none.has_begun());
  EXPECT_EQ(none.post(5), 0U);
}

TEST_F(NativeTallyTest, WithoutAnEntryNobodyHasCalledMore) {
  std::vector<NativeTally> all;
  for (std::uint32_t i = 0; i < kNativeCallsEntries; ++i) all.emplace_back(tallies, GroupId{7, i}, 0);
  NativeTally uncounted(tallies, kOne, 0);
  uncounted.count();
  EXPECT_TRUE(uncounted.has_begun());
  EXPECT_FALSE(has_passed(kOne, 0, 0));
  EXPECT_EQ(uncounted.post(0), kUncountedNativeCalls);
  all[3].count();
  EXPECT_TRUE(has_passed(GroupId{7, 3}, 0, 0));
  EXPECT_FALSE(has_passed(GroupId{7, 3}, 0, kUncountedNativeCalls));

  all[3] = NativeTally();
  EXPECT_FALSE(has_passed(GroupId{7, 3}, 0, 0));
  NativeTally counted(tallies, kOne, 0);
  counted.count();
  EXPECT_TRUE(has_passed(kOne, 0, 0));
}

TEST_F(NativeTallyTest, AForkedChildTouchesNothing) {
  NativeTally tally(tallies, kOne, 0);
  lock.inert = true;
  tally.count();
  EXPECT_EQ(tally.post(0), kUncountedNativeCalls);
  EXPECT_FALSE(has_passed(kOne, 0, 0));
}

}  // namespace
}  // namespace outrigger::client
