#include "intranode/waiter.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "intranode/team.hpp"

namespace outrigger::intranode {
namespace {

// Sleeps at once, so long that only a wake-up ends it in time.
constexpr WaitPolicy kSleep{.spins = 0, .yields = 0, .sleep = std::chrono::minutes(10)};

TEST(WaiterTest, RaisingAFlagWakesAMemberThatSleeps) {
  Flag flag{};
  std::thread sleeper([&] {
    Waiter waiter(kSleep);
    EXPECT_TRUE(waiter.wait(flag, 2, 0));
  });
  while (flag.sleepers.load() == 0) std::this_thread::yield();
  Waiter::raise(flag, 1);  // too low: it sleeps again
  while (flag.sleepers.load() == 0) std::this_thread::yield();
  // A raise that the member misses, since nothing orders its two words, would cost a sleep: raise until it has seen
  // one.
  std::uint64_t value = 2;
  while (flag.sleepers.load() != 0) Waiter::raise(flag, value++);
  sleeper.join();
}

// Raises the flag itself after some calls of progress().
struct ProgressWaiter final : Waiter {
  ProgressWaiter(WaitPolicy policy, Flag& raised) : Waiter(policy), flag(raised) {}
  void progress() override {
    if (++calls == 5) raise(flag, 1);
  }
  Flag& flag;
  int calls = 0;
};

TEST(WaiterTest, MakesProgressHoweverItWaits) {
  const std::chrono::nanoseconds short_sleep(1000);
  for (const WaitPolicy& policy : {WaitPolicy{.spins = UINT32_MAX}, WaitPolicy{.spins = 0, .yields = UINT32_MAX},
                                   WaitPolicy{.spins = 0, .yields = 0, .sleep = short_sleep}}) {
    Flag flag{};
    ProgressWaiter waiter(policy, flag);
    EXPECT_TRUE(waiter.wait(flag, 1, 0));
    EXPECT_EQ(waiter.calls, 5);
  }
}

// A sleep is seen from outside; the yields would never end.
TEST(WaiterTest, SleepsAfterALongYield) {
  Flag flag{};
  std::thread member([&] {
    Waiter waiter({.spins = 0,
                   .yields = UINT32_MAX,
                   .longest_yield = std::chrono::nanoseconds(-1),
                   .sleep = std::chrono::milliseconds(10)});
    EXPECT_TRUE(waiter.wait(flag, 1, 0));
  });
  while (flag.sleepers.load() == 0) std::this_thread::yield();
  Waiter::raise(flag, 1);
  member.join();
}

struct ImpatientWaiter final : Waiter {
  using Waiter::Waiter;
  bool overdue(const Late& late) override {
    last = late.whose;
    return ++calls < 3;
  }
  std::uint32_t last = 99;
  int calls = 0;
};

TEST(WaiterTest, AMemberThatNeverArrivesIsNamedAndEndsTheCall) {
  for (const std::uint32_t yields : {0U, UINT32_MAX}) {
    const WaitPolicy policy{.spins = 10, .yields = yields, .sleep = std::chrono::nanoseconds(1000), .patience = {}};
    Result<UniqueFd> fd = ControlArea::create(2);
    ASSERT_TRUE(fd.ok()) << fd.error();
    ImpatientWaiter waiter(policy);
    Team team(ControlArea::attach(fd.value().get(), 2).value(), 0, waiter);
    EXPECT_EQ(team.barrier(), Outcome::ended);
    EXPECT_EQ(waiter.last, 1U);
    EXPECT_EQ(waiter.calls, 3);
  }
}

// A member may arrive, and end, while another looks whether it is still there.
TEST(WaiterTest, AMemberThatComesInTheLastMomentHasCome) {
  struct LastMoment final : Waiter {
    explicit LastMoment(Flag& raised)
        : Waiter({.spins = 0, .yields = 0, .sleep = std::chrono::nanoseconds(1000), .patience = {}}), flag(raised) {}
    bool overdue(const Late& late) override {
      EXPECT_FALSE(late.has_come());
      raise(flag, 1);
      return late.has_come();
    }
    Flag& flag;
  };
  Flag flag{};
  LastMoment waiter(flag);
  EXPECT_TRUE(waiter.wait(flag, 1, 0));
}

}  // namespace
}  // namespace outrigger::intranode
