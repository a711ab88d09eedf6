#include "service/keeper/supervise/hung_services.hpp"

#include <gtest/gtest.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/shared_memory.hpp"
#include "service/loop/heartbeat.hpp"

namespace outrigger::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint32_t kLooks = HungServices::kLooksUntilLost;

class HungServicesTest : public ::testing::Test {
 protected:
  HungServicesTest() { EXPECT_EQ(hung_.look(0, sign_), std::nullopt); }

  // The result of a look after `used` CPU time.
  [[nodiscard]] std::optional<std::string> look(char state, milliseconds used, bool work_waits) {
    sign_.process.state = state;
    sign_.process.cpu += used;
    sign_.work_waits = work_waits;
    return hung_.look(0, sign_);
  }
  void turn() { ++sign_.turns; }

  HungServices hung_;
  ServiceSign sign_;
};

TEST_F(HungServicesTest, SleepingWithoutWorkIsHealthy) {
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(look('S', milliseconds(0), false), std::nullopt);
}

TEST_F(HungServicesTest, TurningIsHealthy) {
  for (int i = 0; i < 1000; ++i) {
    turn();
    EXPECT_EQ(look('R', seconds(2), true), std::nullopt);
  }
}

TEST_F(HungServicesTest, RunningWithoutATurnIsLostAfterTheLimit) {
  for (std::uint32_t i = 1; i < kLooks; ++i) EXPECT_EQ(look('R', seconds(2), false), std::nullopt) << i;
  const std::optional<std::string> why = look('R', seconds(2), false);
  ASSERT_TRUE(why);
  EXPECT_EQ(*why, "has made no progress for 12 s (state R, 12.0 s of CPU time)");
}

TEST_F(HungServicesTest, SleepingWithWorkIsLostAfterTheLimit) {
  for (std::uint32_t i = 1; i < kLooks; ++i) EXPECT_EQ(look('S', milliseconds(0), true), std::nullopt) << i;
  const std::optional<std::string> why = look('S', milliseconds(0), true);
  ASSERT_TRUE(why);
  EXPECT_EQ(*why, "has slept for 12 s though work waits for it");
}

TEST_F(HungServicesTest, StarvedIsNotLost) {
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(look('R', milliseconds(0), true), std::nullopt);  // starved
    EXPECT_EQ(look('D', milliseconds(0), true), std::nullopt);  // swapped out
  }
}

TEST_F(HungServicesTest, LittleCpuTimeExtendsTheLimit) {
  std::uint32_t looks = 1;
  while (!look('R', milliseconds(100), true)) ASSERT_LT(++looks, 1000U);
  EXPECT_EQ(looks, HungServices::kLeastCpu / milliseconds(100));
}

TEST_F(HungServicesTest, TurnResetsTheCount) {
  for (int round = 0; round < 10; ++round) {
    turn();
    for (std::uint32_t i = 0; i < kLooks; ++i) EXPECT_EQ(look('R', seconds(2), true), std::nullopt);
  }
  EXPECT_NE(look('R', seconds(2), true), std::nullopt);
}

TEST_F(HungServicesTest, StoppedOrTracedIsIgnored) {
  for (const char state : {'T', 't'}) {
    for (std::uint32_t i = 1; i < kLooks; ++i) EXPECT_EQ(look('R', seconds(2), true), std::nullopt);
    for (std::uint32_t i = 0; i < 3 * kLooks; ++i) EXPECT_EQ(look(state, milliseconds(0), true), std::nullopt);
    for (std::uint32_t i = 1; i < kLooks; ++i) EXPECT_EQ(look('R', seconds(2), true), std::nullopt);
    turn();
    EXPECT_EQ(look('R', seconds(2), true), std::nullopt);
  }
}

TEST_F(HungServicesTest, ReplacementResetsTheCount) {
  for (std::uint32_t i = 1; i < kLooks; ++i) EXPECT_EQ(look('R', seconds(2), true), std::nullopt);
  hung_.forget(0);
  sign_.process.cpu = milliseconds(0);
  for (std::uint32_t i = 0; i < kLooks; ++i) EXPECT_EQ(look('R', seconds(2), true), std::nullopt);
}

// A child, because emulators answer differently about the process itself.
class RunningChild {
 public:
  RunningChild() : pid_(::fork()) {
    if (pid_ != 0) return;
    std::atomic<std::uint64_t> turns = 0;
    while (true) ++turns;
  }
  RunningChild(const RunningChild&) = delete;
  RunningChild& operator=(const RunningChild&) = delete;
  ~RunningChild() {
    if (pid_ <= 0) return;
    (void)::kill(pid_, SIGKILL);
    (void)::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST(SignOfProcess, IsWhatTheKernelSays) {
  const RunningChild child;
  ASSERT_GT(child.pid(), 0);
  const std::optional<ProcessSign> before = sign_of_process(child.pid());
  ASSERT_TRUE(before);
  const auto end = std::chrono::steady_clock::now() + seconds(20);
  std::optional<ProcessSign> now;
  do {
    now = sign_of_process(child.pid());
    ASSERT_TRUE(now);
  } while (now->cpu < before->cpu + milliseconds(50) && std::chrono::steady_clock::now() < end);
  EXPECT_EQ(now->state, 'R');
  EXPECT_GE(now->cpu, before->cpu + milliseconds(50));
  EXPECT_EQ(sign_of_process(0), std::nullopt);
}

TEST(HeartbeatTest, VoluntarySleepIsShownAndCleared) {
  const Result<UniqueFd> page = create_sealed_memory("heartbeat-test", kServicePagesBytes, Backing::reserved);
  ASSERT_TRUE(page) << page.error();
  const Result<Mapping> mapping = Mapping::map(page.value().get(), kServicePagesBytes);
  ASSERT_TRUE(mapping) << mapping.error();
  const auto* seen = reinterpret_cast<const ServiceHeartbeat*>(mapping.value().base());
  Heartbeat first;
  ASSERT_TRUE(first.show_in(page.value()));
  EXPECT_EQ(seen->asleep.load(), 0U);
  std::optional<Heartbeat::Asleep> killed_asleep(std::in_place, first);
  EXPECT_NE(seen->asleep.load(), 0U);
  Heartbeat second;
  ASSERT_TRUE(second.show_in(page.value()));
  EXPECT_EQ(seen->asleep.load(), 0U);
  {
    const Heartbeat::Asleep asleep(second);
    EXPECT_NE(seen->asleep.load(), 0U);
  }
  EXPECT_EQ(seen->asleep.load(), 0U);
  killed_asleep.reset();
}

}  // namespace
}  // namespace outrigger::service
