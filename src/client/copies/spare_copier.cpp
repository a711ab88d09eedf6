#include "client/copies/spare_copier.hpp"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "client/copies/copier_thread.hpp"
#include "client/quiet_thread.hpp"
#include "copy/policy.hpp"

namespace outrigger::client {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Between two looks, for each rank that shares a core: a wake-up and a look take half of it.
constexpr microseconds kPause{4};
// After this time without a job the ranks seem to wait for one that is late.
constexpr milliseconds kUntilQuiet{5};
constexpr microseconds kQuietPause{1000};

// Between sessions a yield does not give up the core (docs/inside/memory.md), so copiers sleep. They do not interrupt
// each other's copies.
void share_core() {
  const sched_param none{};
  (void)::sched_setscheduler(0, SCHED_BATCH, &none);
  (void)::prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

}  // namespace

// The ring names the slots that the rank uses. All 4096 would cost more than some copies to look at, and a megabyte.
class SpareCopier::UsedSlots {
 public:
  explicit UsedSlots(SegmentView segment) : segment_(segment) {}

  [[nodiscard]] bool anything_posted() {
    follow_ring();
    for (std::uint32_t slot = 0; slot < count_; ++slot) {
      const auto state = static_cast<SlotState>(segment_.slot(SlotIndex{slot}).state.load(std::memory_order_acquire));
      if (state == SlotState::posted || state == SlotState::filled) return true;
    }
    return false;
  }

 private:
  // Low slots are used first.
  void follow_ring() {
    const std::uint32_t tail = segment_.header().ring_tail.load(std::memory_order_acquire);
    if (tail - seen_ > kSlotCount) seen_ = tail - kSlotCount;
    for (; seen_ != tail; ++seen_) {
      const std::uint32_t slot = segment_.ring_entry(seen_).load(std::memory_order_relaxed);
      count_ = std::max(count_, std::min(slot + 1, kSlotCount));
    }
  }

  const SegmentView segment_;
  std::uint32_t seen_ = 0;
  std::uint32_t count_ = 0;
};

void SpareCopier::allow(SegmentView segment, SpareCores cores) {
  segment_ = segment;
  cores_ = std::move(cores);
}

void SpareCopier::posted(std::uint64_t bytes) {
  if (cores_.cpus.empty() || !copy::wants_lender(bytes)) return;
  if (started_) return ring();
  if (std::exchange(used_, true) || filter_.is_new()) return;
  started_ = start_quiet_thread(thread_, kCopierStackBytes, &SpareCopier::main, this);
}

// One that a filter has killed offers nothing any more.
void SpareCopier::ring() {
  if ((queue().copier_holds.load(std::memory_order_relaxed) & kCopierDied) != 0) {
    segment_.header().copier_lends.store(0, std::memory_order_relaxed);
  }
  ring_copier(queue());
}

void SpareCopier::stop() {
  used_ = true;
  if (!std::exchange(started_, false)) return;
  stop_.store(true, std::memory_order_seq_cst);
  ring_copier(queue());
  ::pthread_join(thread_, nullptr);
}

void* SpareCopier::main(void* self) {
  static_cast<SpareCopier*>(self)->serve();
  return nullptr;
}

void SpareCopier::serve() {
  if (!settle_as_copier(cores_.cpus)) return;
  share_core();
  jobs_.belong_to_copier(queue());
  std::atomic<std::uint32_t>& lends = segment_.header().copier_lends;
  lends.store(1, std::memory_order_relaxed);
  look_for_jobs();
  lends.store(0, std::memory_order_relaxed);
}

void SpareCopier::look_for_jobs() {
  UsedSlots slots(segment_);
  Clock::time_point last = Clock::now();
  while (!ended()) {
    const bool copied = copy_one();
    const bool idle = !copied && !slots.anything_posted();
    if (idle) sleep(slots);
    if (copied || idle) {
      last = Clock::now();
    } else {
      pause(Clock::now() - last);
    }
  }
}

// A program's system call filter may end threads that copy. Service processes that replace a lost DPU ask no copiers.
bool SpareCopier::ended() const {
  return stop_.load(std::memory_order_seq_cst) || filter_.is_new() ||
         (segment_.header().dpu_calls.load(std::memory_order_relaxed) & kDpuLost) != 0;
}

// Also counts a turn, but none for a rank that waits: one without a core must not seem to have had it.
bool SpareCopier::copy_one() {
  if (queue().rank_waits.load(std::memory_order_relaxed) != 0) return false;
  std::atomic<std::uint32_t>& turns = segment_.header().rank_lends_turns;
  turns.store(turns.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return CopyTaker(queue()).anything_asked() && jobs_.take_asked(queue());
}

// A post shows its slot and then rings; this reads in the reverse order.
void SpareCopier::sleep(UsedSlots& slots) {
  std::atomic<std::uint32_t>& lends = segment_.header().copier_lends;
  lends.store(0, std::memory_order_relaxed);
  CopyTaker(queue()).sleep_unless([&] { return ended() || slots.anything_posted(); });
  lends.store(1, std::memory_order_relaxed);
}

void SpareCopier::pause(Clock::duration without_job) const {
  const microseconds in_turn = kPause * cores_.ranks / cores_.cpus.size();
  const nanoseconds time = without_job < kUntilQuiet ? in_turn : std::max(in_turn, kQuietPause);
  const timespec duration{0, time.count()};
  (void)::nanosleep(&duration, nullptr);
}

}  // namespace outrigger::client
