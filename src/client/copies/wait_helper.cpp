#include "client/copies/wait_helper.hpp"

#include <chrono>

namespace outrigger::client {
namespace {

// Limit for a copy in progress at the program's end. A thread that takes longer has been killed.
constexpr std::chrono::seconds kLongestCopy{1};
constexpr std::chrono::microseconds kBetweenLooks{20};

std::int64_t now_ns() {
  using std::chrono::nanoseconds;
  return std::chrono::duration_cast<nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void WaitHelper::allow(CopyQueue& copy_queue, HugePages& pages, copy::Lenders lenders) {
  copy_queue_ = &copy_queue;
  pages_ = &pages;
  lenders_ = lenders;
  copy_queue.ranks_alone.store(alone() ? 1 : 0, std::memory_order_release);
}

void WaitHelper::refuse() {
  const bool already = stopped_.exchange(true, std::memory_order_seq_cst);
  if (!already && alone()) copy_queue_->ranks_alone.store(0, std::memory_order_release);
}

// All relaxed: these are hints without ordered data.
void WaitHelper::posted(std::uint64_t bytes) {
  if (copy_queue_ == nullptr || alone()) return;
  const std::int64_t until = now_ns() + copy::at_once_after(bytes).count();
  if (until > at_once_until_ns_.load(std::memory_order_relaxed)) {
    at_once_until_ns_.store(until, std::memory_order_relaxed);
  }
}

std::atomic<std::uint32_t>& WaitHelper::waiting(copy::Waits waits) const {
  return waits == copy::Waits::late ? copy_queue_->rank_waits_late : copy_queue_->rank_waits;
}

copy::Waits WaitHelper::enter() {
  if (!able() || lenders_ == copy::Lenders::none) return copy::Waits::no;
  const bool at_once = alone() || now_ns() <= at_once_until_ns_.load(std::memory_order_relaxed);
  const copy::Waits waits = at_once ? copy::Waits::at_once : copy::Waits::late;
  waiting(waits).fetch_add(1, std::memory_order_relaxed);
  return waits;
}

void WaitHelper::leave(copy::Waits waits) {
  if (waits != copy::Waits::no) waiting(waits).fetch_sub(1, std::memory_order_relaxed);
}

bool WaitHelper::has_copies() const {
  return CopyTaker(*copy_queue_).anything_asked();
}

bool WaitHelper::wanted() const {
  if (!able()) return false;
  return (has_copies() || (alone() && pages_->anything())) &&
         copying_.load(std::memory_order_relaxed) == std::thread::id();
}

bool WaitHelper::help() {
  if (!wanted()) return false;
  std::thread::id nobody;
  // The reverse order of stop(), which sets its flag and then checks for copies.
  if (!copying_.compare_exchange_strong(nobody, std::this_thread::get_id(), std::memory_order_seq_cst)) return false;
  const bool helped = !stopped_.load(std::memory_order_seq_cst) && may_copy() && take_one();
  copying_.store(std::thread::id(), std::memory_order_release);
  return helped;
}

// Copiers begin before the program installs a system call filter; this thread may be filtered, and a forbidden call
// would end the program.
bool WaitHelper::may_copy() {
  if (!filter_.is_new()) return true;
  refuse();
  return false;
}

bool WaitHelper::take_one() {
  if (jobs_.take_asked(*copy_queue_)) return true;
  if (!alone() || !pages_->anything()) return false;
  pages_->advance();
  return true;
}

void WaitHelper::stop() {
  refuse();
  const auto deadline = std::chrono::steady_clock::now() + kLongestCopy;
  while (true) {
    const std::thread::id copying = copying_.load(std::memory_order_seq_cst);
    if (copying == std::thread::id() || copying == std::this_thread::get_id()) return;
    if (std::chrono::steady_clock::now() > deadline) return;
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

void WaitHelper::forget() {
  stopped_.store(true, std::memory_order_relaxed);
  copying_.store(std::thread::id(), std::memory_order_relaxed);
}

}  // namespace outrigger::client
