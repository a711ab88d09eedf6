// When a communicator's blocks count as small.
#include "steer/coordinator/block_sizes.hpp"

#include <gtest/gtest.h>

namespace outrigger::steer {
namespace {

class Sizes : public ::testing::Test {
 protected:
  static constexpr GroupId kGroup{1, 2};
  static constexpr CollectiveBits kBit = Suspended::bit(Collective::ialltoallv);

  bool post(bool small, Collective collective = Collective::ialltoallv) {
    return sizes_.note(OperationId{kGroup, sequence_++}, collective, small);
  }
  int posts_until_small() {
    for (int posts = 1; posts < 10'000; ++posts) {
      if (post(true)) return posts;
    }
    return 0;
  }

  BlockSizes sizes_;
  std::uint64_t sequence_ = 0;
};

TEST_F(Sizes, AreSmallAfterSomeInARow) {
  EXPECT_FALSE(post(true));
  EXPECT_FALSE(post(false));
  EXPECT_EQ(sizes_.small(kGroup), 0);
  EXPECT_EQ(posts_until_small(), 9);
  EXPECT_EQ(sizes_.small(kGroup), kBit);
  EXPECT_TRUE(post(false));
  EXPECT_EQ(sizes_.small(kGroup), 0);
}

TEST_F(Sizes, TakeLongerEachTimeThatTheyWereNot) {
  const int first = posts_until_small();
  EXPECT_TRUE(sizes_.note_larger(kGroup, Collective::ialltoallv));
  EXPECT_FALSE(sizes_.note_larger(kGroup, Collective::ialltoallv));  // the other ranks say it, too
  EXPECT_EQ(sizes_.small(kGroup), 0);
  EXPECT_GT(posts_until_small(), 3 * first);
  sizes_.forget(kGroup);
  EXPECT_EQ(sizes_.small(kGroup), 0);
}

TEST_F(Sizes, ThatAllRanksKnowAreTheSelectionTables) {
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(post(true, Collective::ialltoall));
}

TEST_F(Sizes, OfOneOperationCountOnceHoweverManyRanksPostIt) {
  for (int i = 0; i < 100; ++i) {
    sequence_ = 5;
    EXPECT_FALSE(post(true));
  }
}

}  // namespace
}  // namespace outrigger::steer
