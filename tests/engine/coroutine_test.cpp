// Tasks, the ready queue and the window: order, ownership, and destruction by dropping.
#include <gtest/gtest.h>

#include <vector>

#include "engine/core/task.hpp"
#include "engine/core/window.hpp"

namespace outrigger::engine {
namespace {

struct Counted {
  explicit Counted(int& live) : live_(live) { ++live_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --live_; }
  int& live_;
};

Task enter_and_stay(Window& window, std::uint32_t& slots, Suspension*& parked, int& live) {
  const Counted counted(live);
  co_await window.enter(slots);
  struct Park : Suspension {
    explicit Park(Suspension*& where) : where_(where) {}
    Park(const Park&) = delete;
    Park& operator=(const Park&) = delete;
    ~Park() = default;
    [[nodiscard]] bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> waiter) {
      handle = waiter;
      where_ = this;
    }
    void await_resume() const {}
    Suspension*& where_;
  };
  co_await Park(parked);
  window.leave(slots);
}

TEST(Tasks, RunOnlyThroughTheScheduler) {
  Scheduler scheduler;
  Window window(scheduler, 1);
  std::uint32_t slots = 0;
  int live = 0;
  Suspension* parked = nullptr;
  TaskList tasks(scheduler);
  tasks.spawn(enter_and_stay(window, slots, parked, live));
  EXPECT_EQ(live, 0);
  EXPECT_TRUE(scheduler.run());
  EXPECT_EQ(live, 1);
  EXPECT_EQ(slots, 1U);
  scheduler.make_ready(*parked);
  scheduler.run();
  EXPECT_EQ(live, 0);
  EXPECT_EQ(window.held(), 0U);
  EXPECT_TRUE(tasks.empty());
}

TEST(Tasks, OneThatIsNeverSpawnedIsDestroyed) {
  Scheduler scheduler;
  Window window(scheduler, 1);
  std::uint32_t slots = 0;
  int live = 0;
  Suspension* parked = nullptr;
  { const Task task = enter_and_stay(window, slots, parked, live); }
  EXPECT_FALSE(scheduler.run());
  EXPECT_EQ(live, 0);
}

TEST(Tasks, DroppingTheListDestroysWaitersAndGivesSlotsBack) {
  Scheduler scheduler;
  Window window(scheduler, 1);
  std::uint32_t slots_a = 0;
  std::uint32_t slots_b = 0;
  int live = 0;
  Suspension* parked = nullptr;
  TaskList holder(scheduler);
  holder.spawn(enter_and_stay(window, slots_a, parked, live));
  scheduler.run();
  {
    TaskList waiters(scheduler);
    for (int i = 0; i < 3; ++i) waiters.spawn(enter_and_stay(window, slots_b, parked, live));
    scheduler.run();
    EXPECT_EQ(live, 4);
    // The first waiter has been granted the slot but has not run yet when it is dropped.
    window.leave(slots_a);
    EXPECT_FALSE(scheduler.idle());
  }
  EXPECT_EQ(live, 1);
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(window.held(), 0U);
  EXPECT_FALSE(window.has_waiters());
}

TEST(Window, IsFair) {
  Scheduler scheduler;
  Window window(scheduler, 2);
  std::vector<std::uint32_t> slots(5, 0);
  std::vector<Suspension*> parked(5, nullptr);
  int live = 0;
  TaskList tasks(scheduler);
  for (std::size_t i = 0; i < 5; ++i) tasks.spawn(enter_and_stay(window, slots[i], parked[i], live));
  scheduler.run();
  EXPECT_EQ(slots, (std::vector<std::uint32_t>{1, 1, 0, 0, 0}));
  scheduler.make_ready(*parked[1]);
  scheduler.run();
  EXPECT_EQ(slots, (std::vector<std::uint32_t>{1, 0, 1, 0, 0}));
}

}  // namespace
}  // namespace outrigger::engine
