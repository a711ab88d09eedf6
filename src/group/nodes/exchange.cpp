#include "group/nodes/exchange.hpp"

#include <poll.h>
#include <sched.h>

#include <algorithm>

namespace outrigger::group {
namespace {

using intranode::Outcome;

// Looks at the connections before the first sleep: each is a system call, and what comes soon is seen sooner.
constexpr std::uint32_t kLooks = 1000;

}  // namespace

Outcome Exchange::wait(bool for_sends) {
  Clock::time_point since = Clock::now();
  Clock::time_point next_look = since + kBetweenLooks;
  for (std::uint32_t looks = 0; transfers_.is_pending(for_sends); ++looks) {
    if (transfers_.move()) {
      since = Clock::now();
      looks = 0;
      continue;
    }
    if (difference()) return Outcome::ended;
    if (looks < kLooks && !long_yields_.lately()) {
      yield();
      continue;
    }
    const bool has_news = sleep();
    long_yields_.slept();
    const Clock::time_point now = Clock::now();
    if (now < next_look && !has_news) continue;
    next_look = now + kBetweenLooks;
    if (!look_after(for_sends, now - since)) return Outcome::ended;
  }
  return difference() ? Outcome::ended : Outcome::done;
}

void Exchange::yield() {
  const Clock::time_point began = Clock::now();
  (void)::sched_yield();
  long_yields_.yielded(Clock::now() - began);
}

// True: there is something to look at.
bool Exchange::sleep() {
  std::vector<pollfd> wakes;
  watch_.add_lines(wakes);
  const std::size_t watched = wakes.size();
  transfers_.add_descriptors(wakes);
  (void)::poll(wakes.data(), wakes.size(), static_cast<int>(kBetweenLooks.count()));
  return std::ranges::any_of(std::span(wakes).first(watched), [](const pollfd& one) { return one.revents != 0; });
}

bool Exchange::has_all(std::uint32_t member) {
  return watch_.has_ended(member, kOnTheWay) && Clock::now() - transfers_.came(member) >= kOnTheWay;
}

// Bytes that a member sent before it failed count. The stream of a member that has destroyed its group is closed, too.
bool Exchange::look_after(bool for_sends, std::chrono::nanoseconds waited) {
  watch_.look();
  const bool failed = watch_.failure().is_set();
  (void)transfers_.move();
  if (!transfers_.is_pending(for_sends)) return true;
  if (failed) return false;
  for (std::uint32_t member = 0; member < transfers_.ends(); ++member) {
    const bool sends = for_sends && transfers_.has_sends(member);
    if (!transfers_.has_receives(member) && !sends) continue;
    const Stream& stream = *transfers_.stream(member);
    Failure failure{.about = member, .noticed = layout_.rank()};
    const bool no_more = stream.is_closed() || (sends && stream.is_broken());
    if (no_more || (watch_.has_ended(member) && (sends || has_all(member)))) {
      failure.kind = FailureKind::died;
    } else if (waited >= waiter_.timeout()) {
      failure.kind = FailureKind::late;
      failure.seconds = static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::seconds>(waited).count());
    }
    if (!failure.is_set()) continue;
    // A member that closes its streams after a failure has told the failure before.
    watch_.look();
    (void)watch_.fail(failure);
    return false;
  }
  return true;
}

}  // namespace outrigger::group
