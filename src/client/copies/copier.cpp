#include "client/copies/copier.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <span>
#include <utility>

#include "base/clock.hpp"
#include "client/copies/copier_thread.hpp"
#include "client/copies/copy_jobs.hpp"
#include "client/quiet_thread.hpp"

namespace outrigger::client {

void Copier::start(CopyQueue& copy_queue, HugePages& pages, int cpu) {
  if (std::exchange(used_, true) || filter_.is_new()) return;
  copy_queue_ = &copy_queue;
  pages_ = &pages;
  cpu_ = cpu;
  state_.store(State::starts, std::memory_order_relaxed);
  started_ = start_quiet_thread(thread_, kCopierStackBytes, &Copier::main, this);
}

void Copier::stop() {
  used_ = true;
  if (!started_) return;
  started_ = false;
  stop_.store(true, std::memory_order_seq_cst);
  ring_copier(*copy_queue_);
  ::pthread_join(thread_, nullptr);
}

std::int64_t Copier::cpu_ns() const {
  clockid_t clock = 0;
  if (!started_ || ::pthread_getcpuclockid(thread_, &clock) != 0) return 0;
  return time_on(clock).count();
}

void* Copier::main(void* self) {
  static_cast<Copier*>(self)->serve();
  return nullptr;
}

void Copier::serve() {
  if (!settle_as_copier(std::span(&cpu_, 1))) {
    state_.store(State::ended, std::memory_order_release);
    return;
  }
  CopyJobs jobs;
  CopyTaker taker(*copy_queue_);
  jobs.belong_to_copier(*copy_queue_);
  const auto ended = [this] { return stop_.load(std::memory_order_seq_cst) || filter_.is_new(); };
  copy_queue_->copier_tid.store(static_cast<std::int32_t>(::syscall(SYS_gettid)), std::memory_order_release);
  state_.store(State::runs, std::memory_order_release);
  CopyJob job;
  std::uint32_t number = 0;
  while (!ended()) {
    if (taker.take(job, number)) {
      copy_queue_->copier_has.store(number + 1, std::memory_order_release);
      begin_work();
      const CopyResult result = jobs.carry_out(job);
      end_work();  // before the service process continues and reads it
      taker.finish(number, result);
      copy_queue_->copier_has.store(0, std::memory_order_relaxed);
    } else if (pages_->anything()) {
      make_huge_pages();
    } else {
      taker.sleep([&] { return ended() || pages_->anything(); });
    }
  }
  state_.store(State::ended, std::memory_order_release);
  copy_queue_->copier_tid.store(0, std::memory_order_release);
}

void Copier::begin_work() {
  const auto now_ns = static_cast<std::uint64_t>(time_on(CLOCK_MONOTONIC).count());
  copy_queue_->copier_busy_since.store(now_ns, std::memory_order_relaxed);
}

void Copier::end_work() {
  const auto ran_ns = static_cast<std::uint64_t>(time_on(CLOCK_THREAD_CPUTIME_ID).count());
  copy_queue_->copier_ran_ns.store(ran_ns, std::memory_order_relaxed);
  copy_queue_->copier_busy_since.store(0, std::memory_order_relaxed);
}

// Other threads copy meanwhile.
void Copier::make_huge_pages() {
  copy_queue_->copier_away.store(1, std::memory_order_release);
  begin_work();
  pages_->advance();
  end_work();
  copy_queue_->copier_away.store(0, std::memory_order_release);
}

}  // namespace outrigger::client
