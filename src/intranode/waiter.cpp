#include "intranode/waiter.hpp"

#include <sched.h>

#include "base/futex.hpp"

namespace outrigger::intranode {
namespace {

constexpr std::uint32_t kLooksPerProgress = 64;

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

bool Waiter::wait_long(Flag& flag, std::uint64_t value, std::uint32_t whose) {
  for (std::uint32_t spin = 1; spin <= policy_.spins; ++spin) {
    pause_core();
    if (steps::load(flag.value) >= value) return true;
    if (spin % kLooksPerProgress == 0) progress();
  }
  const auto start = std::chrono::steady_clock::now();
  auto next_report = start + policy_.patience;
  for (std::uint32_t round = 0;; ++round) {
    progress();
    if (round < policy_.yields) {
      (void)::sched_yield();
    } else {
      sleep(flag, value);
    }
    if (steps::load(flag.value) >= value) return true;
    if (round < policy_.yields && round % kLooksPerProgress != 0) continue;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_report) continue;
    if (!overdue(whose, now - start)) return false;
    next_report = now + policy_.patience;
  }
}

// The writer reads `sleepers` without a fence after its store, so it may miss a member that is about to sleep. That
// member then sleeps for at most policy_.sleep.
void Waiter::sleep(Flag& flag, std::uint64_t value) const {
  flag.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const std::uint64_t seen = steps::load(flag.value);
  if (seen < value) futex_wait_at(&flag.value, static_cast<std::uint32_t>(seen), policy_.sleep);
  flag.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void Waiter::wake(Flag& flag) {
  futex_wake_all_at(&flag.value);
}

}  // namespace outrigger::intranode
