#include "service/keeper/supervise/stopped_services.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>

namespace outrigger::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class FakeStarter final : public ServiceStarter {
 public:
  [[nodiscard]] Result<StartedService> start(std::uint32_t) override { return Error{"never asked for"}; }
  [[nodiscard]] bool is_stopped(std::uint32_t sp) override { return stopped.contains(sp); }
  [[nodiscard]] int state_event() const override { return -1; }
  void clear_state_event() override {}
  [[nodiscard]] std::string how_it_ended(std::uint32_t) override { return "ended"; }
  void stop_all() override {}

  std::set<std::uint32_t> stopped;
};

constexpr std::uint32_t kServices = 3;

class StoppedServicesTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::optional<std::uint32_t> look_after(milliseconds time) {
    now_ += time;
    return stopped_.look(starter_, kServices, now_);
  }

  FakeStarter starter_;
  StoppedServices stopped_;
  StoppedServices::Clock::time_point now_{};
};

TEST_F(StoppedServicesTest, NoneIsStopped) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(look_after(seconds(10)), std::nullopt);
  EXPECT_FALSE(stopped_.any());
}

TEST_F(StoppedServicesTest, StoppedProcessIsLostAfterItsTurns) {
  EXPECT_EQ(look_after(seconds(100)), std::nullopt);
  starter_.stopped = {1};
  EXPECT_EQ(look_after(seconds(100)), std::nullopt);
  EXPECT_TRUE(stopped_.any());
  for (std::uint32_t turn = 1; turn < StoppedServices::kTurnsUntilLost; ++turn) {
    EXPECT_EQ(look_after(StoppedServices::kTurn), std::nullopt) << turn;
  }
  EXPECT_EQ(look_after(StoppedServices::kTurn), 1U);
}

TEST_F(StoppedServicesTest, LooksBetweenTurnsDoNotCount) {
  starter_.stopped = {2};
  milliseconds taken{0};
  EXPECT_EQ(look_after(milliseconds(0)), std::nullopt);
  while (!look_after(milliseconds(300))) taken += milliseconds(300);
  EXPECT_GE(taken + milliseconds(300), StoppedServices::kTurn * StoppedServices::kTurnsUntilLost);
  EXPECT_LE(taken, StoppedServices::kTurn * StoppedServices::kTurnsUntilLost);
}

TEST_F(StoppedServicesTest, ContinuedProcessResetsTheCount) {
  starter_.stopped = {0};
  EXPECT_EQ(look_after(milliseconds(0)), std::nullopt);
  for (std::uint32_t turn = 1; turn < StoppedServices::kTurnsUntilLost; ++turn) {
    EXPECT_EQ(look_after(StoppedServices::kTurn), std::nullopt);
  }
  starter_.stopped.clear();
  EXPECT_EQ(look_after(StoppedServices::kTurn), std::nullopt);
  EXPECT_FALSE(stopped_.any());
  starter_.stopped = {0};
  EXPECT_EQ(look_after(StoppedServices::kTurn), std::nullopt);
  EXPECT_EQ(look_after(StoppedServices::kTurn), std::nullopt);
}

// A job that was suspended for an hour, including its keeper: the hour counts as one turn.
TEST_F(StoppedServicesTest, TurnsAreCountedNotTime) {
  starter_.stopped = {0, 1, 2};
  EXPECT_EQ(look_after(milliseconds(0)), std::nullopt);
  EXPECT_EQ(look_after(seconds(3600)), std::nullopt);
  EXPECT_EQ(look_after(milliseconds(10)), std::nullopt);
  EXPECT_TRUE(stopped_.any());
}

}  // namespace
}  // namespace outrigger::service
