// Job queue of copies that a service process gives to one of its ranks. The rank reaches its private memory with one
// copy, where the service process needs two. Part of the rank's control segment. Jobs are taken by threads of the rank:
// by its copier, which sleeps until it is woken, and by waiting threads of the program when they are asked.
//
//   service process                              takers; the copier sleeps on `bell`
//     jobs[given % 16] = job; ++given
//     asked = given, if waiting threads may help
//     ++bell, wake ----------------------------->  take:    taken t -> t + 1   (compare and swap)
//                                                  copy
//     asleep on `events` <-----------------------  results[t] = ...; ++events; wake when nothing is left to take
//     collects results
//     takes back:  taken t -> given               (the same compare and swap)
//
// So every job belongs to one side at any moment. Takers only help: the service process can take back any job that is
// not taken and copy it itself. A taken job belongs to its taker until there is a result or the taker is gone; until
// then the job's memory must not be given back to the program.
//
// The copier is woken for every job, asked or not, and may take all of them, so no job depends on a waiting thread.
// `asked`, `rank_waits` and `rank_waits_late` are hints, read without ordering: a late reader helps late, is asked
// needlessly, or finds the job taken.
//
// Each taker increments `hands` before it takes a job and decrements it when it has finished. A replacement service
// process takes back all jobs; once `hands` is 0, no former job is being copied.
//
// A program's system call filter may kill the copier's thread alone, while it copies. The kernel marks `copier_holds`
// then (a robust futex), and no thread holds the dead one's job.
//
// If the service process has no core, there is no copier. Then all jobs are for waiting threads, and the last result
// wakes the service process by its doorbell.
//
// Service processes on a DPU have only reads and writes over the network, no compare and swap. They wake no thread. A
// copier there takes only jobs for which waiting threads are asked, and looks for them by itself
// (client/copies/spare_copier.hpp). They take jobs back in another way (fabric/dpu/rank_lender.hpp):
//
//   service process                              takers
//     recalled = given, in place                   taken t -> t + 1
//     reads taken, hands, copier_holds             t below recalled: result[t] = returned, no copy
//     reads results
//
// The two counts stay close, so that they can be compared modulo 2^32: `recalled` follows the jobs that have ended, and
// a taker that finds no job brings `taken` up to it. One of the two sides notices the other. A job without a result is
// the service process's own if it was not taken, or if `hands` was 0. New jobs are given only after `hands` was 0: no
// taker writes a result of an earlier round then.
//
// Writers: service process: wanted, given, asked, recalled, service_waits, jobs, results before a job is given; takers:
// results, events, hands; copier: copier_*; waiting threads: rank_waits, rank_waits_late, ranks_alone; both sides:
// taken, bell. One service process, the one that serves the rank.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/futex.hpp"

namespace outrigger {

// Jobs at a time, a power of two; the service process queues further ones.
inline constexpr std::uint32_t kCopyJobs = 16;

enum class CopyKind : std::uint32_t {
  pull = 1,    // other process -> own memory
  push = 2,    // own memory -> other process
  within = 3,  // own memory -> own memory
};

enum class CopyResult : std::uint32_t {
  none = 0,
  copied = 1,
  fault = 2,  // A part of a range is missing.
  gone = 3,   // The other process is gone.
  // The copier may not access the other process, or it is not the intended one.
  unreachable = 4,
  // Taken after the service process had recalled it, and not copied.
  returned = 5,
};

struct CopyJob {
  std::uint32_t kind = 0;           // CopyKind
  std::int32_t other_pid = 0;       // pull, push
  std::uint64_t own_address = 0;    // within: the destination
  std::uint64_t other_address = 0;  // within: the source
  std::uint64_t bytes = 0;
  // pull, push: a word of the other process and its value. Process ids differ between namespaces, so the word is
  // checked before any byte is copied.
  std::uint64_t probe_address = 0;
  std::uint64_t probe_value = 0;
};
static_assert(sizeof(CopyJob) == 48);

// Set in `copier_holds` by the kernel when the copier's thread has ended in the middle of a copy.
inline constexpr std::uint32_t kCopierDied = FUTEX_OWNER_DIED;

// Takers that live and may hold a job, from `hands` and `copier_holds`.
[[nodiscard]] constexpr std::uint32_t living_hands(std::uint32_t hands, std::uint32_t copier_holds) {
  return (copier_holds & kCopierDied) != 0 ? hands - 1 : hands;
}

// Numbers of jobs, modulo 2^32.
[[nodiscard]] constexpr bool is_below(std::uint32_t number, std::uint32_t limit) {
  return static_cast<std::int32_t>(limit - number) > 0;
}

struct alignas(64) CopyQueue {
  std::atomic<std::uint32_t> wanted;         // not 0: the rank starts a copier at its next call
  std::atomic<std::uint32_t> given;          // jobs ever put in, modulo 2^32
  std::atomic<std::uint32_t> service_waits;  // not 0: wake `events` by futex when all jobs are taken
  std::atomic<std::uint32_t> asked;          // waiting threads may take jobs below this number, modulo 2^32
  std::atomic<std::uint32_t> recalled;       // jobs below this number are not begun any more, modulo 2^32

  alignas(64) std::atomic<std::uint32_t> taken;  // jobs ever taken or taken back
  std::atomic<std::uint32_t> events;             // results ever given; a futex word
  std::atomic<std::uint32_t> bell;               // the futex word of the sleeping copier
  std::atomic<std::uint32_t> copier_sleeps;      // not 0: wake `bell` by futex after a job was given
  std::atomic<std::int32_t> copier_tid;          // 0: there is no copier
  std::atomic<std::uint32_t> copier_has;         // one more than the number of the copier's current job; 0: none
  std::atomic<std::uint32_t> hands;              // takers that may hold a job
  std::atomic<std::uint32_t> rank_waits;         // waiting threads of the program that would copy, at once after a post
  std::atomic<std::uint32_t> copier_away;        // not 0: the copier is busy for some milliseconds; give it nothing
  std::atomic<std::uint32_t> copier_holds;       // the copier's thread id while it copies; see kCopierDied
  std::atomic<std::uint64_t> copier_ran_ns;      // CPU time of the copier's thread before its current work ...
  // ... which began at this time of the steady clock in ns; 0: no current work
  std::atomic<std::uint64_t> copier_busy_since;
  std::atomic<std::uint32_t> ranks_alone;      // not 0: there is no copier, but waiting threads take jobs
  std::atomic<std::uint32_t> rank_waits_late;  // those that wait after a computation

  alignas(64) std::array<CopyJob, kCopyJobs> jobs{};
  std::array<std::atomic<std::uint32_t>, kCopyJobs> results;  // CopyResult

  [[nodiscard]] CopyJob& job(std::uint32_t number) { return jobs[number % kCopyJobs]; }
  [[nodiscard]] std::atomic<std::uint32_t>& result(std::uint32_t number) { return results[number % kCopyJobs]; }
};

// The takers' side. Any thread: it has no state of its own. sleep() is for the copier.
class CopyTaker {
 public:
  explicit CopyTaker(CopyQueue& copy_queue) : copy_queue_(copy_queue) {}

  // True: the caller has the next job, and must call finish() with its number.
  [[nodiscard]] bool take(CopyJob& job, std::uint32_t& number) {
    return take_if(job, number, [](std::uint32_t) { return true; });
  }
  // The same for a waiting thread: only jobs for which such threads are asked.
  [[nodiscard]] bool take_asked(CopyJob& job, std::uint32_t& number) {
    return take_if(job, number, [this](std::uint32_t next) {
      return is_below(next, copy_queue_.asked.load(std::memory_order_acquire));
    });
  }
  // True if there is a job for a waiting thread; another thread may take it first. Reads `asked` first: it is ordered
  // with the thread's announcement of its sleep (wake_if_asleep() in segment.hpp), and jobs are visible before it is
  // written.
  [[nodiscard]] bool anything_asked() const {
    const std::uint32_t asked = copy_queue_.asked.load(std::memory_order_seq_cst);
    const std::uint32_t next = after_recalled(copy_queue_.taken.load(std::memory_order_acquire));
    return is_below(next, copy_queue_.given.load(std::memory_order_acquire)) && is_below(next, asked);
  }

  void finish(std::uint32_t number, CopyResult result) {
    copy_queue_.result(number).store(static_cast<std::uint32_t>(result), std::memory_order_release);
    copy_queue_.hands.fetch_sub(1, std::memory_order_seq_cst);
    copy_queue_.events.fetch_add(1, std::memory_order_seq_cst);
    // One wake-up for all jobs: the service process has nothing to do on the copier's core in between.
    const bool nothing_left =
        copy_queue_.taken.load(std::memory_order_seq_cst) == copy_queue_.given.load(std::memory_order_seq_cst);
    if (nothing_left && copy_queue_.service_waits.load(std::memory_order_seq_cst) != 0)
      futex_wake_all(copy_queue_.events);
  }

  // Sleeps until the bell, unless there is a job, or `ended` returns true after the sleep was announced.
  template <class Ended>
  void sleep(const Ended& ended) {
    sleep_unless([&] {
      return copy_queue_.taken.load(std::memory_order_seq_cst) != copy_queue_.given.load(std::memory_order_seq_cst) ||
             ended();
    });
  }
  // The same if only `awake` decides.
  template <class Awake>
  void sleep_unless(const Awake& awake) {
    const std::uint32_t heard = copy_queue_.bell.load(std::memory_order_seq_cst);
    copy_queue_.copier_sleeps.store(1, std::memory_order_seq_cst);
    if (!awake()) futex_wait_forever(copy_queue_.bell, heard);
    copy_queue_.copier_sleeps.store(0, std::memory_order_seq_cst);
  }

 private:
  // The first job from `number` on that is not recalled.
  [[nodiscard]] std::uint32_t after_recalled(std::uint32_t number) const {
    const std::uint32_t recalled = copy_queue_.recalled.load(std::memory_order_seq_cst);
    return is_below(number, recalled) ? recalled : number;
  }

  // `taken` is never far behind `recalled`, also if the rank gets no job.
  void follow_recalled(std::uint32_t taken, std::uint32_t number) {
    if (taken != number) copy_queue_.taken.compare_exchange_strong(taken, number, std::memory_order_seq_cst);
  }

  // `taken` is read with acquire: its writer had seen as many jobs given, so `given` is not behind it here, and only
  // existing jobs are taken. Over a network `given` may be late.
  template <class Wanted>
  [[nodiscard]] bool take_if(CopyJob& job, std::uint32_t& number, const Wanted& wanted) {
    copy_queue_.hands.fetch_add(1, std::memory_order_seq_cst);
    std::uint32_t taken = copy_queue_.taken.load(std::memory_order_seq_cst);
    do {
      number = after_recalled(taken);
      if (!is_below(number, copy_queue_.given.load(std::memory_order_acquire)) || !wanted(number)) {
        follow_recalled(taken, number);
        copy_queue_.hands.fetch_sub(1, std::memory_order_seq_cst);
        return false;
      }
    } while (!copy_queue_.taken.compare_exchange_weak(taken, number + 1, std::memory_order_seq_cst));
    if (after_recalled(number) != number) {
      finish(number, CopyResult::returned);
      return false;
    }
    job = copy_queue_.job(number);
    return true;
  }

  CopyQueue& copy_queue_;
};

// For a replacement service process: no job of the dead one is started any more. Returns the number to continue with.
inline std::uint32_t take_back_all(CopyQueue& copy_queue) {
  const std::uint32_t given = copy_queue.given.load(std::memory_order_acquire);
  copy_queue.asked.store(given, std::memory_order_relaxed);
  copy_queue.recalled.store(given, std::memory_order_seq_cst);
  copy_queue.taken.store(given, std::memory_order_seq_cst);
  return given;
}

// After take_back_all(): true when no former job is being copied. Takers increment `hands` and then look for jobs; this
// reads in the reverse order.
[[nodiscard]] inline bool hands_are_out(const CopyQueue& copy_queue) {
  const std::uint32_t hands = copy_queue.hands.load(std::memory_order_seq_cst);
  return living_hands(hands, copy_queue.copier_holds.load(std::memory_order_seq_cst)) == 0;
}

// Wakes the copier if it sleeps. For either side.
inline void ring_copier(CopyQueue& copy_queue) {
  copy_queue.bell.fetch_add(1, std::memory_order_seq_cst);
  if (copy_queue.copier_sleeps.load(std::memory_order_seq_cst) != 0) futex_wake_all(copy_queue.bell);
}

}  // namespace outrigger
