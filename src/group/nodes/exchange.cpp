#include "group/nodes/exchange.hpp"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <utility>

namespace outrigger::group {
namespace {

using intranode::CallWord;
using intranode::Outcome;

// Looks at the connections before the first sleep: each is a system call, and what comes soon is seen sooner.
constexpr std::uint32_t kLooks = 1000;

}  // namespace

Exchange::Exchange(const Layout& layout, std::vector<std::unique_ptr<Stream>> streams, MemberWatch& watch,
                   const MemberWaiter& waiter)
    : layout_(layout), lines_(layout.size()), watch_(watch), waiter_(waiter) {
  for (std::uint32_t member = 0; member < lines_.size(); ++member) lines_[member].stream = std::move(streams[member]);
}

void Exchange::begin(CallWord call) {
  call_ = call.tagged(++calls_);
}

void Exchange::send(std::uint32_t member, std::span<const std::byte> from) {
  Line& line = lines_[member];
  Transfer transfer{.head = {.call = call_.word(), .bytes = from.size()}, .from = from.data(), .bytes = from.size()};
  line.sends.push_back(transfer);
  (void)move_sends(line);
}

void Exchange::receive(std::uint32_t member, std::span<std::byte> into) {
  lines_[member].receives.push_back({.into = into.data(), .bytes = into.size()});
}

bool Exchange::is_pending(bool for_sends) const {
  return std::ranges::any_of(
      lines_, [&](const Line& line) { return !line.receives.empty() || (for_sends && !line.sends.empty()); });
}

bool Exchange::move() {
  bool moved = false;
  for (std::uint32_t member = 0; member < lines_.size(); ++member) {
    moved = move_sends(lines_[member]) || moved;
    moved = move_receives(member) || moved;
  }
  return moved;
}

bool Exchange::move_sends(Line& line) {
  bool any = false;
  while (!line.sends.empty()) {
    Transfer& one = line.sends.front();
    const auto head = std::as_bytes(std::span(&one.head, 1));
    const std::uint64_t of_head = std::min<std::uint64_t>(one.moved, head.size());
    const std::uint64_t of_body = one.moved - of_head;
    const std::size_t moved = line.stream->write(head.subspan(of_head), {one.from + of_body, one.bytes - of_body});
    one.moved += moved;
    any = any || moved > 0;
    if (!one.is_done()) break;
    line.sends.pop_front();
  }
  return any;
}

bool Exchange::move_receives(std::uint32_t member) {
  Line& line = lines_[member];
  bool any = false;
  while (!line.receives.empty() && !difference_) {
    Transfer& one = line.receives.front();
    const auto head = std::as_writable_bytes(std::span(&one.head, 1));
    const std::uint64_t of_head = std::min<std::uint64_t>(one.moved, head.size());
    const std::uint64_t of_body = one.moved - of_head;
    const std::size_t moved = line.stream->read(head.subspan(of_head), {one.into + of_body, one.bytes - of_body});
    one.moved += moved;
    any = any || moved > 0;
    if (of_head < head.size() && one.moved >= head.size()) check(member, one);
    if (!one.is_done()) break;
    line.receives.pop_front();
  }
  if (any) line.came = Clock::now();
  return any;
}

void Exchange::check(std::uint32_t member, const Transfer& transfer) {
  const CallWord theirs(transfer.head.call);
  const bool same = theirs.ahead_of(call_) == 0 && theirs.is_same_call(call_);
  if (same && transfer.head.bytes == transfer.bytes) return;
  difference_ = intranode::Difference{.other = member,
                                      .mine = call_,
                                      .theirs = theirs,
                                      .lengths = same,
                                      .given = transfer.head.bytes,
                                      .room = transfer.bytes};
}

Outcome Exchange::wait(bool for_sends) {
  Clock::time_point since = Clock::now();
  Clock::time_point next_look = since + kBetweenLooks;
  for (std::uint32_t looks = 0; is_pending(for_sends); ++looks) {
    if (move()) {
      since = Clock::now();
      looks = 0;
      continue;
    }
    if (difference_) return Outcome::ended;
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
  return difference_ ? Outcome::ended : Outcome::done;
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
  for (const Line& line : lines_) {
    if (line.stream == nullptr || line.stream->is_closed()) continue;
    const bool sends = !line.sends.empty() && !line.stream->is_broken();
    const int events = (line.receives.empty() ? 0 : POLLIN) | (sends ? POLLOUT : 0);
    if (events != 0) {
      wakes.push_back({.fd = line.stream->descriptor(), .events = static_cast<short>(events), .revents = 0});
    }
  }
  (void)::poll(wakes.data(), wakes.size(), static_cast<int>(kBetweenLooks.count()));
  return std::ranges::any_of(std::span(wakes).first(watched), [](const pollfd& one) { return one.revents != 0; });
}

bool Exchange::has_all(std::uint32_t member) {
  return watch_.has_ended(member, kOnTheWay) && Clock::now() - lines_[member].came >= kOnTheWay;
}

// Bytes that a member sent before it failed count. The stream of a member that has destroyed its group is closed, too.
bool Exchange::look_after(bool for_sends, std::chrono::nanoseconds waited) {
  watch_.look();
  const bool failed = watch_.failure().is_set();
  (void)move();
  if (!is_pending(for_sends)) return true;
  if (failed) return false;
  for (std::uint32_t member = 0; member < lines_.size(); ++member) {
    const Line& line = lines_[member];
    const bool sends = for_sends && !line.sends.empty();
    if (line.receives.empty() && !sends) continue;
    Failure failure{.about = member, .noticed = layout_.rank()};
    const bool no_more = line.stream->is_closed() || (sends && line.stream->is_broken());
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
