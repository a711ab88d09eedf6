#include "fabric/host/core_loan.hpp"

#include <sched.h>

#include <chrono>

#include "copy/policy.hpp"

namespace outrigger::fabric {
namespace {

constexpr std::chrono::microseconds kLongestLoan{1000};  // before this process does other work
constexpr std::chrono::microseconds kStuckPause{50};     // while only a stuck copier is left

// Copiers run on this core, so polling gains nothing.
void sleep_meanwhile(const std::deque<Lender*>& lenders, bool here) {
  const auto deadline = LenderQueue::Clock::now() + kLongestLoan;
  bool others = here;
  // The last one woken usually runs last: then one sleep waits for all.
  for (auto lender = lenders.rbegin(); lender != lenders.rend(); ++lender) {
    LenderQueue& copy_queue = (*lender)->copy_queue;
    if (copy_queue.pending() == 0 || copy_queue.stuck()) continue;
    others = true;
    const auto left = std::chrono::ceil<std::chrono::microseconds>(deadline - LenderQueue::Clock::now());
    if (left.count() > 0) copy_queue.wait(left);
  }
  if (others) return;
  LenderQueue& first = lenders.front()->copy_queue;
  if (first.pending() != 0) first.wait(kStuckPause);
}

// A yield costs least, but the kernel may ignore it: between scheduler groups (sessions, control groups), or if this
// process has used less of the core than the copier. Then only a sleep frees the core at once.
void yield_meanwhile(const std::deque<Lender*>& lenders, bool here) {
  const auto deadline = LenderQueue::Clock::now() + kLongestLoan;
  for (const Lender* lender : lenders) {
    const LenderQueue& copy_queue = lender->copy_queue;
    while (copy_queue.pending() != 0 && !copy_queue.stuck() && !copy_queue.all_finished()) {
      if (copy_queue.in_ranks_hands()) break;  // on their own cores: others may have finished meanwhile
      const std::uint32_t steps = copy_queue.steps();
      ::sched_yield();
      if (copy_queue.steps() == steps) return sleep_meanwhile(lenders, here);
      if (LenderQueue::Clock::now() > deadline) return;
    }
  }
}

}  // namespace

void lend_core_to(const std::deque<Lender*>& lenders, copy::CoreShare share, bool here) {
  copy::sleeps_while_lending(share) ? sleep_meanwhile(lenders, here) : yield_meanwhile(lenders, here);
}

}  // namespace outrigger::fabric
