#include "fabric/ucx/pace.hpp"

#include <gtest/gtest.h>

namespace outrigger::fabric::ucx {
namespace {

using std::chrono::microseconds;
using Time = Pace::Clock::time_point;

constexpr std::uint64_t kMuch = 1U << 20;

// The pause after `bytes` have come in `time`.
microseconds pause_at(std::uint64_t bytes, microseconds time, std::uint64_t under_way_bytes = kMuch) {
  Pace pace;
  const Time start{std::chrono::seconds(1)};
  (void)pace.pause(start, 0, kMuch);
  return pace.pause(start + time, bytes, under_way_bytes);
}

TEST(Pace, IsAsLongAsAPortionTakes) {
  EXPECT_EQ(pause_at(Pace::kPortionBytes, microseconds{200}), microseconds{200});
  EXPECT_EQ(pause_at(4 * Pace::kPortionBytes, microseconds{800}), microseconds{200});
}

TEST(Pace, HasALimitOnSlowNetworks) {
  EXPECT_EQ(pause_at(1000, microseconds{1000}), Pace::kLongest);
  EXPECT_EQ(pause_at(0, microseconds{1000}), Pace::kLongest);
}

TEST(Pace, FastNetworksAreLookedAtWhenTheyHaveSomething) {
  EXPECT_EQ(pause_at(64 * Pace::kPortionBytes, microseconds{500}), microseconds{0});
}

TEST(Pace, TheEndOfAMoveIsNotWaitedFor) {
  EXPECT_EQ(pause_at(Pace::kPortionBytes, microseconds{200}, 2 * Pace::kPortionBytes - 1), microseconds{0});
  EXPECT_EQ(pause_at(0, microseconds{200}, 0), microseconds{0});
}

// Many bytes in a pause show that it was too long: the next one is shorter.
TEST(Pace, FollowsTheNetwork) {
  Pace pace;
  Time now{std::chrono::seconds(1)};
  (void)pace.pause(now, 0, kMuch);
  now += microseconds{500};
  std::uint64_t moved = 10'000;
  EXPECT_EQ(pace.pause(now, moved, kMuch), Pace::kLongest);
  now += Pace::kLongest;
  moved += 1U << 20;
  EXPECT_EQ(pace.pause(now, moved, kMuch), microseconds{0});
}

}  // namespace
}  // namespace outrigger::fabric::ucx
