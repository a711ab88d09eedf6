#include "fabric/host/lanes/lender.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

namespace outrigger::fabric {

void LenderQueue::want() {
  if (wanted_) return;
  wanted_ = true;
  copy_queue_->wanted.store(1, std::memory_order_release);
}

bool LenderQueue::usable() {
  if (gone_ || end_ != given_) return false;
  if (lenders_ == copy::Lenders::waiting_ranks) return copy_queue_->ranks_alone.load(std::memory_order_acquire) != 0;
  const pid_t tid = copy_queue_->copier_tid.load(std::memory_order_acquire);
  // no copier yet, or it has ended
  if (tid == 0 || copy_queue_->copier_away.load(std::memory_order_acquire) != 0) return false;
  if (tid_ == 0) {
    tid_ = tid;
    // In another namespace the number may belong to another thread, whose state would be misread.
    gone_ = !thread_lives();
  }
  return !gone_ && tid == tid_;
}

bool LenderQueue::thread_lives() const {
  return ::syscall(SYS_tgkill, pid_, tid_, 0) == 0 || errno != ESRCH;
}

void LenderQueue::give(const CopyJob& job, const Chunk& chunk) {
  assert(room() != 0 && "uncollected jobs are not overwritten");
  assert(end_ == given_ && "numbers are not reused while older jobs are held");
  copy_queue_->job(given_) = job;
  copy_queue_->result(given_).store(static_cast<std::uint32_t>(CopyResult::none), std::memory_order_relaxed);
  chunks_[given_ % kCopyJobs] = chunk;
  if (pending() == 0) last_progress_ = Clock::now();
  ++given_;
  end_ = given_;
  copy_queue_->recalled.store(collected_, std::memory_order_relaxed);  // never far behind `taken`
  copy_queue_->given.store(given_, std::memory_order_seq_cst);
}

void LenderQueue::ring() {
  ring_copier(*copy_queue_);
}

void LenderQueue::ask_rank() {
  asked_ = true;
  copy_queue_->asked.store(given_, std::memory_order_seq_cst);
}

void LenderQueue::ask_no_more() {
  if (!std::exchange(asked_, false)) return;
  copy_queue_->asked.store(collected_, std::memory_order_relaxed);
}

bool LenderQueue::in_ranks_hands() const {
  return copy_queue_->copier_sleeps.load(std::memory_order_acquire) != 0 &&
         copy_queue_->taken.load(std::memory_order_acquire) == given_;
}

void LenderQueue::wait(std::chrono::microseconds at_most) {
  const auto deadline = Clock::now() + at_most;
  copy_queue_->service_waits.store(1, std::memory_order_seq_cst);
  while (true) {
    const std::uint32_t events = copy_queue_->events.load(std::memory_order_seq_cst);
    if (all_finished()) break;
    const auto left = deadline - Clock::now();
    if (left.count() <= 0) break;
    futex_wait(copy_queue_->events, events, left);
  }
  copy_queue_->service_waits.store(0, std::memory_order_relaxed);
}

bool LenderQueue::has_result(std::uint32_t number) const {
  return copy_queue_->result(number).load(std::memory_order_acquire) != static_cast<std::uint32_t>(CopyResult::none);
}

bool LenderQueue::has_news() const {
  if (pending() == 0) return false;
  (void)copy_queue_->events.load(std::memory_order_seq_cst);
  return has_result(collected_);
}

std::optional<LenderQueue::Clock::duration> LenderQueue::patience_left() const {
  if (pending() == 0 || stuck_) return std::nullopt;
  return std::max<Clock::duration>(last_progress_ + patience_ - Clock::now(), Clock::duration{0});
}

bool LenderQueue::all_finished() const {
  for (std::uint32_t number = collected_; number != end_; ++number) {
    if (!has_result(number)) return false;
  }
  return true;
}

std::uint64_t LenderQueue::unfinished_bytes() const {
  std::uint64_t bytes = 0;
  for (std::uint32_t number = collected_; number != end_; ++number) {
    if (!has_result(number)) bytes += chunks_[number % kCopyJobs].bytes;
  }
  return bytes;
}

bool LenderQueue::collect_finished(std::vector<Finished>& finished) {
  const std::size_t before = finished.size();
  for (; collected_ != end_ && has_result(collected_); ++collected_) {
    const auto result = static_cast<CopyResult>(copy_queue_->result(collected_).load(std::memory_order_relaxed));
    finished.push_back(Finished{chunks_[collected_ % kCopyJobs], result});
  }
  if (finished.size() == before) return false;
  if (collected_ == end_) collected_ = end_ = given_;  // past the numbers that were taken back
  stuck_ = false;
  return true;
}

bool LenderQueue::collect(std::vector<Finished>& finished, std::vector<Chunk>& returned) {
  if (pending() == 0) return false;
  const Clock::time_point now = Clock::now();
  if (collect_finished(finished)) {
    last_progress_ = now;
    return true;
  }
  if (now - last_progress_ < patience_) return false;
  const std::size_t before = returned.size();
  if (!stuck_) {
    take_back(returned);
    stuck_ = pending() != 0;
    last_look_ = now;
  } else if (now - last_look_ > kLookInterval) {
    last_look_ = now;
    take_from_the_dead(returned);
  }
  return returned.size() != before;
}

// The keeper reports the end of a process, but a single thread may be killed by a system call filter.
void LenderQueue::take_from_the_dead(std::vector<Chunk>& returned) {
  if (tid_ == 0 || thread_lives()) return;
  gone_ = true;
  const std::uint32_t number = copy_queue_->copier_has.load(std::memory_order_acquire) - 1;
  // A waiting thread may hold the first job: wait for its end, then check again.
  if (number != collected_ || has_result(number)) return;
  returned.push_back(chunks_[number % kCopyJobs]);
  ++collected_;
  if (collected_ == end_) collected_ = end_ = given_;
  stuck_ = false;
}

void LenderQueue::take_back(std::vector<Chunk>& returned) {
  if (end_ != given_) return;  // the rest was taken back before
  std::uint32_t taken = copy_queue_->taken.load(std::memory_order_acquire);
  do {
    if (taken - collected_ > end_ - collected_) {  // invalid count: do not trust the copier any more
      taken = collected_;
      gone_ = true;
      copy_queue_->taken.store(given_, std::memory_order_release);
      break;
    }
  } while (!copy_queue_->taken.compare_exchange_weak(taken, given_, std::memory_order_acq_rel));
  for (std::uint32_t number = taken; number != end_; ++number) returned.push_back(chunks_[number % kCopyJobs]);
  end_ = taken;
  if (collected_ == end_) collected_ = end_ = given_;
}

bool Lender::may_reach(WorldRank other) const {
  return std::ranges::find(unreachable, other) == unreachable.end();
}

}  // namespace outrigger::fabric
