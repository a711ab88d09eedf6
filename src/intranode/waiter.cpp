#include "intranode/waiter.hpp"

#include <sched.h>

#include "base/futex.hpp"

namespace outrigger::intranode {
namespace {

constexpr std::uint32_t kLooksPerProgress = 256;
constexpr std::uint32_t kYieldsPerClock = 64;

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

bool Waiter::wait_long(Flag& flag, std::uint64_t value, std::uint32_t whose, bool writes) {
  for (std::uint32_t look = 1; look <= policy_.spins; ++look) {
    pause_core();
    if (steps::load(flag.value) >= value) return true;
    if (look % kLooksPerProgress == 0) progress();
  }
  const Late late{.whose = whose, .flag = &flag, .value = value, .writes = writes};
  Overdue since{Clock::now(), Clock::now() + policy_.patience};
  for (std::uint32_t look = 1; look <= policy_.yields && !long_yields_.lately(); ++look) {
    yield();
    if (steps::load(flag.value) >= value) return true;
    if (look % policy_.yields_per_progress == 0) progress();
    if (look % kYieldsPerClock == 0 && gives_up(since, late)) return false;
  }
  for (;;) {
    if (comes_during_looks(flag, value)) return true;
    sleep(flag, value);
    if (steps::load(flag.value) >= value) return true;
    if (gives_up(since, late)) return false;
  }
}

bool Waiter::gives_up(Overdue& since, const Late& late) {
  const Clock::time_point now = Clock::now();
  if (now < since.next) return false;
  since.next = now + policy_.patience;
  Late now_late = late;
  now_late.waited = now - since.start;
  return !overdue(now_late);
}

// The program's messages are served as they come, without a sleep for each of their steps.
bool Waiter::comes_during_looks(const Flag& flag, std::uint64_t value) {
  do {
    const Clock::time_point began = Clock::now();
    progress();
    pace_.looked(Clock::now() - began);
    if (!long_yields_.lately()) yield();
    if (steps::load(flag.value) >= value) return true;
  } while (pace_.looks_on(long_yields_.lately()));
  return false;
}

void Waiter::yield() {
  const Clock::time_point began = Clock::now();
  (void)::sched_yield();
  long_yields_.yielded(Clock::now() - began, policy_.longest_yield);
}

// The writer reads `sleepers` without a fence after its store, so it may miss a member that is about to sleep. That
// member then sleeps for at most policy_.sleep.
void Waiter::sleep(Flag& flag, std::uint64_t value) {
  flag.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const std::uint64_t seen = steps::load(flag.value);
  if (seen < value) futex_wait_at(&flag.value, static_cast<std::uint32_t>(seen), pace_.sleep(policy_.sleep));
  flag.sleepers.fetch_sub(1, std::memory_order_relaxed);
  long_yields_.slept();
  pace_.slept();
}

void Waiter::wake(Flag& flag) {
  futex_wake_all_at(&flag.value);
}

}  // namespace outrigger::intranode
