#include "mpi/polite/core_contention.hpp"

#include <gtest/gtest.h>

namespace outrigger::mpi {
namespace {

using std::chrono::milliseconds;

struct Watched {
  CoreContention watch;
  CoreContention::Look look{milliseconds(1000), milliseconds(70)};
  bool polite = watch.next(look);

  // A look after the usual time, of which the thread has waited so long for its core.
  bool next(milliseconds without_core) {
    look.now += CoreContention::kBetweenLooks;
    look.without_core += without_core;
    return polite = watch.next(look);
  }
  // Number of looks until waits are polite, or native; at most 10000.
  int looks_until(bool wanted, milliseconds without_core) {
    for (int looks = 1; looks <= 10000; ++looks) {
      if (next(without_core) == wanted) return looks;
    }
    return 0;
  }
};

constexpr milliseconds kIdle{0};
constexpr milliseconds kLittle{25};  // an eighth
constexpr milliseconds kBusy{26};
constexpr int kTerm = CoreContention::kFirstTerm;

TEST(CoreContention, OwnCoreStaysNative) {
  Watched thread;
  EXPECT_FALSE(thread.polite) << "what came before the first look is not known";
  EXPECT_EQ(thread.looks_until(true, kLittle), 0);
}

TEST(CoreContention, OneDisturbanceIsNotEnough) {
  Watched thread;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(thread.next(kBusy));
    EXPECT_FALSE(thread.next(kIdle));
  }
}

TEST(CoreContention, PoliteOnABusyCore) {
  Watched thread;
  EXPECT_EQ(thread.looks_until(true, kBusy), 2);
}

TEST(CoreContention, NativeAgainAfterATrial) {
  Watched thread;
  ASSERT_EQ(thread.looks_until(true, kBusy), 2);
  EXPECT_EQ(thread.looks_until(false, kIdle), kTerm);
  EXPECT_FALSE(thread.next(kIdle));
  EXPECT_FALSE(thread.next(kIdle));
  EXPECT_FALSE(thread.next(kBusy)) << "the trial is over";
  EXPECT_TRUE(thread.next(kBusy));
  EXPECT_EQ(thread.looks_until(false, kIdle), kTerm);
}

TEST(CoreContention, TrialsBecomeRareOnABusyCore) {
  Watched thread;
  ASSERT_EQ(thread.looks_until(true, kBusy), 2);
  int term = kTerm;
  for (int trial = 0; trial < 8; ++trial) {
    EXPECT_EQ(thread.looks_until(false, kBusy), term);
    EXPECT_EQ(thread.looks_until(true, kBusy), 1) << "one look is enough in a trial";
    term = std::min(2 * term, static_cast<int>(CoreContention::kLongestTerm));
  }
  EXPECT_EQ(term, static_cast<int>(CoreContention::kLongestTerm));
}

}  // namespace
}  // namespace outrigger::mpi
