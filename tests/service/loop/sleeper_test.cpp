// How a service process sleeps on its ports.
#include "service/loop/sleeper.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <string>

namespace outrigger::service {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Clock = Sleeper::Clock;

UniqueFd make_event() {
  return UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

void raise_event(const UniqueFd& event) {
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(event.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

class FakePort final : public fabric::Port {
 public:
  bool progress() override { return false; }
  std::vector<int> descriptors() const override { return {event.get()}; }
  bool may_sleep() override { return ready; }
  bool arm() override {
    asked += "a";
    return nothing_to_do;
  }
  void wake_up() override { asked += "w"; }
  std::optional<Clock::duration> sleep_limit(Clock::time_point /*now*/) const override { return limit; }
  bool must_poll() const override { return polls; }
  microseconds pause(Clock::time_point /*now*/) override { return wanted_pause; }

  UniqueFd event = make_event();
  bool ready = true;
  bool nothing_to_do = true;
  bool polls = false;
  std::optional<Clock::duration> limit = milliseconds(5);
  microseconds wanted_pause{0};
  std::string asked;  // arm, wake_up
};

class Sleepers : public ::testing::Test {
 protected:
  Sleepers() {
    for (FakePort* port : {&one_, &two_}) {
      ports_.emplace_back(*port);
      sleeper_.watch(*port);
    }
  }
  // Has been idle for very long.
  [[nodiscard]] bool may_sleep() {
    if (sleeper_.may_sleep(now_)) return true;
    now_ += std::chrono::seconds(1);
    return sleeper_.may_sleep(now_);
  }

  Clock::time_point now_{};
  FakePort one_;
  FakePort two_;
  fabric::Ports ports_;
  fabric::HostFabric node_;
  SteeringHost plans_{node_};
  Lateness lateness_;
  PostIntake posts_{node_, plans_, lateness_};
  UniqueFd control_ = make_event();
  Sleeper sleeper_{control_.get(), ports_, posts_};
};

TEST_F(Sleepers, DoesNotSleepBeforeAllPortsMay) {
  two_.ready = false;
  EXPECT_FALSE(may_sleep());
  two_.ready = true;
  EXPECT_TRUE(may_sleep());
}

TEST_F(Sleepers, SpinsFiveMillisecondsOnItsOwnCoreAndFiftyMicrosecondsOnASharedOne) {
  EXPECT_FALSE(sleeper_.may_sleep(now_));
  EXPECT_FALSE(sleeper_.may_sleep(now_ + milliseconds(5)));
  EXPECT_TRUE(sleeper_.may_sleep(now_ + milliseconds(5) + microseconds(1)));
  sleeper_.share_core(copy::CoreShare::shared);
  sleeper_.stay_awake();
  EXPECT_FALSE(sleeper_.may_sleep(now_));
  EXPECT_FALSE(sleeper_.may_sleep(now_ + microseconds(50)));
  EXPECT_TRUE(sleeper_.may_sleep(now_ + microseconds(51)));
}

TEST_F(Sleepers, PortsToldOfSleepAreToldOfWork) {
  sleeper_.stay_awake();
  EXPECT_EQ(one_.asked, "") << "nobody was told";
  ASSERT_TRUE(may_sleep());
  sleeper_.stay_awake();
  sleeper_.stay_awake();
  EXPECT_EQ(one_.asked, "w");
  EXPECT_FALSE(sleeper_.may_sleep(now_)) << "it is idle from now on";
}

TEST_F(Sleepers, PortWithWorkKeepsItAwake) {
  one_.limit = two_.limit = std::nullopt;  // it would sleep for ever
  two_.nothing_to_do = false;
  EXPECT_FALSE(sleeper_.sleep(now_));
  EXPECT_EQ(one_.asked, "aw");
  EXPECT_EQ(two_.asked, "aw");
}

TEST_F(Sleepers, SleepsNoLongerThanAnyPortAllows) {
  one_.limit = std::nullopt;
  two_.limit = milliseconds(20);
  const Clock::time_point begin = Clock::now();
  EXPECT_TRUE(sleeper_.sleep(begin));
  EXPECT_GE(Clock::now() - begin, milliseconds(20));
  EXPECT_EQ(two_.asked, "aw");
}

TEST_F(Sleepers, PortsKeeperAndDoorbellWakeIt) {
  one_.limit = two_.limit = std::nullopt;
  raise_event(two_.event);
  EXPECT_TRUE(sleeper_.sleep(now_));
  std::uint64_t count = 0;
  ASSERT_GT(::read(two_.event.get(), &count, sizeof(count)), 0);

  UniqueFd doorbell = make_event();
  const UniqueFd ring(::dup(doorbell.get()));
  sleeper_.watch_doorbell(std::move(doorbell));
  raise_event(ring);
  EXPECT_TRUE(sleeper_.sleep(now_));
  EXPECT_LT(::read(ring.get(), &count, sizeof(count)), 0) << "it would ring for ever";

  raise_event(control_);
  EXPECT_TRUE(sleeper_.sleep(now_));
}

TEST_F(Sleepers, SpinsAfterAnEventNotAfterALook) {
  ASSERT_TRUE(may_sleep());
  one_.limit = two_.limit = milliseconds(1);
  EXPECT_TRUE(sleeper_.sleep(now_));
  EXPECT_TRUE(sleeper_.may_sleep(now_ + std::chrono::seconds(2))) << "at once: nothing has come";
  raise_event(control_);
  EXPECT_TRUE(sleeper_.sleep(now_));
  EXPECT_FALSE(sleeper_.may_sleep(now_ + std::chrono::seconds(2)));
}

TEST_F(Sleepers, SleepsAtOnceWhereRanksCompute) {
  EXPECT_FALSE(sleeper_.must_sleep_now()) << "its core is its own";
  sleeper_.share_core(copy::CoreShare::shared);
  EXPECT_TRUE(sleeper_.must_sleep_now());
  one_.polls = true;
  EXPECT_FALSE(sleeper_.must_sleep_now());
}

TEST_F(Sleepers, PortThatWantsAPauseIsLeftAlone) {
  sleeper_.share_core(copy::CoreShare::shared);
  one_.limit = two_.limit = std::nullopt;
  two_.wanted_pause = milliseconds(20);
  raise_event(two_.event);
  const Clock::time_point begin = Clock::now();
  sleeper_.sleep_now(begin);
  EXPECT_GE(Clock::now() - begin, milliseconds(20));
  EXPECT_EQ(one_.asked, "aw");
  EXPECT_EQ(two_.asked, "w");
}

}  // namespace
}  // namespace outrigger::service
