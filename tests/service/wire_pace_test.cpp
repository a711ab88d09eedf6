#include "service/loop/wire_pace.hpp"

#include <gtest/gtest.h>

namespace outrigger::service {
namespace {

using std::chrono::microseconds;
using Time = WirePace::Clock::time_point;

constexpr std::uint64_t kMuch = 1U << 20;

// The pause after `bytes` have come in `time`.
microseconds pause_at(std::uint64_t bytes, microseconds time, std::uint64_t under_way_bytes = kMuch) {
  WirePace pace;
  const Time start{std::chrono::seconds(1)};
  (void)pace.pause(start, 0, kMuch);
  return pace.pause(start + time, bytes, under_way_bytes);
}

TEST(WirePace, IsAsLongAsAPortionTakes) {
  EXPECT_EQ(pause_at(WirePace::kPortionBytes, microseconds{200}), microseconds{200});
  EXPECT_EQ(pause_at(4 * WirePace::kPortionBytes, microseconds{800}), microseconds{200});
}

TEST(WirePace, HasALimitOnSlowNetworks) {
  EXPECT_EQ(pause_at(1000, microseconds{1000}), WirePace::kLongest);
  EXPECT_EQ(pause_at(0, microseconds{1000}), WirePace::kLongest);
}

TEST(WirePace, FastNetworksAreLookedAtWhenTheyHaveSomething) {
  EXPECT_EQ(pause_at(64 * WirePace::kPortionBytes, microseconds{500}), microseconds{0});
}

TEST(WirePace, TheEndOfAMoveIsNotWaitedFor) {
  EXPECT_EQ(pause_at(WirePace::kPortionBytes, microseconds{200}, 2 * WirePace::kPortionBytes - 1), microseconds{0});
  EXPECT_EQ(pause_at(0, microseconds{200}, 0), microseconds{0});
}

// What came during a pause that was too long shortens the next one.
TEST(WirePace, FollowsTheNetwork) {
  WirePace pace;
  Time now{std::chrono::seconds(1)};
  (void)pace.pause(now, 0, kMuch);
  now += microseconds{500};
  std::uint64_t moved = 10'000;
  EXPECT_EQ(pace.pause(now, moved, kMuch), WirePace::kLongest);
  now += WirePace::kLongest;
  moved += 1U << 20;
  EXPECT_EQ(pace.pause(now, moved, kMuch), microseconds{0});
}

}  // namespace
}  // namespace outrigger::service
