// How a member waits for the others: it spins, yields, and after a while sleeps. Meanwhile the program's other traffic
// makes progress, and a member that never arrives is reported.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/long_yields.hpp"
#include "base/traffic_pace.hpp"
#include "intranode/flag.hpp"

namespace outrigger::intranode {

struct WaitPolicy {
  // Looks at the flag before the first yield. 0: yield at once.
  std::uint32_t spins = 2000;
  // Yields before the first sleep. Each is one look.
  std::uint32_t yields = 2000;
  // From one progress() to the next.
  std::uint32_t yields_per_progress = 16;
  // After a longer one, sleeps follow without yields before.
  std::chrono::nanoseconds longest_yield = LongYields::kLong;
  // At most so long at a time. A wake-up that is lost costs that time, and progress() is called that often.
  std::chrono::nanoseconds sleep{std::chrono::milliseconds(1)};
  // Time from one overdue() to the next.
  std::chrono::nanoseconds patience{std::chrono::seconds(10)};

  // A member that has run may have to wait for its core.
  bool shares_core = false;
  // For members that each have a core.
  [[nodiscard]] static WaitPolicy own_core() { return {}; }
  // For members that share cores: a member that spins would keep the one it waits for from running.
  [[nodiscard]] static WaitPolicy shared_core() { return {.spins = 20, .yields = 2000, .shares_core = true}; }
};

// A member that has not come for long.
struct Late {
  std::uint32_t whose = 0;
  std::chrono::nanoseconds waited{};
  const Flag* flag = nullptr;
  std::uint64_t value = 0;
  // It may be writing into this member's memory: only its end may end the wait.
  bool writes = false;
  // It may have come meanwhile.
  [[nodiscard]] bool has_come() const { return steps::load(flag->value) >= value; }
};

// One member's waiting. Derive from it to add hooks. They run in the waiting thread, inside the collective call, and
// must not call the team. Thread rule: the team's.
class Waiter {
 public:
  explicit Waiter(WaitPolicy policy = WaitPolicy::own_core()) : policy_(policy) {}
  virtual ~Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  [[nodiscard]] const WaitPolicy& policy() const { return policy_; }
  void set_policy(const WaitPolicy& policy) { policy_ = policy; }

  // Waits until the flag of member `whose` is at least `value`, from 1. Returns what it is; 0: overdue() has ended the
  // wait.
  [[nodiscard]] std::uint64_t wait(Flag& flag, std::uint64_t value, std::uint32_t whose, bool writes = false) {
    const std::uint64_t seen = steps::load(flag.value);
    if (seen >= value) [[likely]]
      return seen;
    return wait_long(flag, value, whose, writes) ? value : 0;
  }
  // Raises an own flag, and wakes members that sleep on it.
  static void raise(Flag& flag, std::uint64_t value) {
    steps::store(flag.value, value);
    if (flag.sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake(flag);
  }

 protected:
  // Lets the program's other communication go on. Called every few hundred looks, every few yields, and before each
  // sleep as often as it finds something to do.
  virtual void progress() {}
  // Called once every `patience`. False: the wait cannot end well (the member has died, the job aborts), and the
  // operation ends with Outcome::ended.
  [[nodiscard]] virtual bool overdue(const Late& /*late*/) { return true; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Overdue {
    Clock::time_point start;
    Clock::time_point next;
  };

  [[nodiscard]] bool wait_long(Flag& flag, std::uint64_t value, std::uint32_t whose, bool writes);
  [[nodiscard]] bool gives_up(Overdue& since, const Late& late);
  void yield();
  [[nodiscard]] bool comes_during_looks(const Flag& flag, std::uint64_t value);
  void sleep(Flag& flag, std::uint64_t value);
  static void wake(Flag& flag);

  WaitPolicy policy_;
  LongYields long_yields_;
  TrafficPace pace_;
};

}  // namespace outrigger::intranode
