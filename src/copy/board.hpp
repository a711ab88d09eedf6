// Copies that a service process asks of one of its ranks' process, which reaches the rank's private memory with one
// copy where the service process needs two. Part of the rank's control segment. The takers are threads of the rank: its
// copier, which sleeps until it is asked, and threads of the program that only wait and are asked meanwhile.
//
//   service process                              takers; the copier sleeps on `bell`
//     jobs[given % 16] = job; ++given
//     asked = given, where waiting threads shall help
//     ++bell, wake ----------------------------->  take:    taken t -> t + 1   (compare and swap)
//                                                  copy
//     asleep on `events` <-----------------------  results[t] = ...; ++events; wake when nothing is left to take
//     collects results
//     takes back:  taken t -> given               (the same compare and swap)
//
// So every job belongs to one side at any moment. Takers are help and never a condition: what nobody has taken the
// service process can take back at any time and copy itself. What is taken is its taker's until there is a result or
// the taker is gone; nothing that the job touches may be given back to the program before.
//
// The copier is rung for every job, asked or not, and may take all of them: no job waits for a thread that has left its
// wait. `asked` and `rank_waits` only say who may come first. They are advice, read without order: who sees them late
// helps late, is asked in vain, or finds the job taken.
//
// Each taker says that it has its hands in before it takes anything, and that it has them out when it has finished. So
// a service process that takes the place of another one takes back everything, and once it has seen no hands in, nobody
// copies any more what the dead one had asked for.
//
// Where the service process has no core there is no copier. Jobs are for threads that wait alone then, all asked for at
// once; the last result wakes the service process by its doorbell.
//
// Who writes what: service process: wanted, given, asked, service_waits, jobs, results before a job is given; takers:
// results, events, hands; copier: copier_*; waiting threads: rank_waits, ranks_alone; both sides: taken, bell. One
// service process, the one that serves the rank.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/futex.hpp"

namespace outrigger {

// Jobs in a board at once, a power of two; at the limit the service process keeps the rest in its queue.
inline constexpr std::uint32_t kCopyJobs = 16;

enum class CopyKind : std::uint32_t {
  pull = 1,    // other process -> own memory
  push = 2,    // own memory -> other process
  within = 3,  // own memory -> own memory
};

enum class CopyResult : std::uint32_t {
  none = 0,
  copied = 1,
  fault = 2,        // a range is not all there
  gone = 3,         // the other process is
  unreachable = 4,  // the copier may not touch the other process, or it is not the one that is meant
};

struct CopyJob {
  std::uint32_t kind = 0;           // CopyKind
  std::int32_t other_pid = 0;       // pull, push
  std::uint64_t own_address = 0;    // within: the destination
  std::uint64_t other_address = 0;  // within: the source
  std::uint64_t bytes = 0;
  // pull, push: a word of the other process and what stands there. Process ids mean something else in another
  // namespace; no byte is copied before the word was found.
  std::uint64_t probe_address = 0;
  std::uint64_t probe_value = 0;
};
static_assert(sizeof(CopyJob) == 48);

struct alignas(64) CopyBoard {
  std::atomic<std::uint32_t> wanted;         // not 0: there is work for a copier; the rank starts it at its next call
  std::atomic<std::uint32_t> given;          // jobs ever put in, modulo 2^32
  std::atomic<std::uint32_t> service_waits;  // not 0: wake `events` by futex when nothing is left to take
  std::atomic<std::uint32_t> asked;          // waiting threads may take jobs below this number, modulo 2^32

  alignas(64) std::atomic<std::uint32_t> taken;  // jobs ever taken by anybody or taken back
  std::atomic<std::uint32_t> events;             // results ever given; a futex word
  std::atomic<std::uint32_t> bell;               // the futex word that the copier sleeps on
  std::atomic<std::uint32_t> copier_sleeps;      // not 0: wake `bell` by futex after a job was given
  std::atomic<std::int32_t> copier_tid;          // 0: there is no copier
  std::atomic<std::uint32_t> copier_has;         // one more than the job that the copier has in hand; 0: none
  std::atomic<std::uint32_t> hands;              // takers that may have a job in hand
  std::atomic<std::uint32_t> rank_waits;         // threads of the program that wait and would copy
  std::atomic<std::uint32_t> copier_away;        // not 0: it does something else for some milliseconds, give it nothing
  std::atomic<std::uint64_t> copier_ran_ns;      // CPU time of the copier's thread, up to what it does now ...
  std::atomic<std::uint64_t> copier_busy_since;  // ... since this time of the steady clock in ns; 0: it does nothing
  std::atomic<std::uint32_t> ranks_alone;        // not 0: there is no copier, but threads that wait take what is here

  alignas(64) std::array<CopyJob, kCopyJobs> jobs{};
  std::array<std::atomic<std::uint32_t>, kCopyJobs> results;  // CopyResult

  [[nodiscard]] CopyJob& job(std::uint32_t number) { return jobs[number % kCopyJobs]; }
  [[nodiscard]] std::atomic<std::uint32_t>& result(std::uint32_t number) { return results[number % kCopyJobs]; }
};

// The takers' side of the handshake. Any thread: it keeps nothing of its own. sleep() is for the copier.
class CopyTaker {
 public:
  explicit CopyTaker(CopyBoard& board) : board_(board) {}

  // True: the job that is next is the caller's, who must finish() it by that number.
  [[nodiscard]] bool take(CopyJob& job, std::uint32_t& number) {
    return take_if(job, number, [](std::uint32_t) { return true; });
  }
  // The same for a thread that waits: only what such threads are asked for.
  [[nodiscard]] bool take_asked(CopyJob& job, std::uint32_t& number) {
    return take_if(job, number,
                   [this](std::uint32_t next) { return is_below(next, board_.asked.load(std::memory_order_acquire)); });
  }
  // Is there a job for a thread that waits? May be over before the answer is used. `asked` first: it is in one order
  // with what a thread says before it sleeps (wake_if_asleep() in segment.hpp), and the jobs are there before it is
  // written.
  [[nodiscard]] bool anything_asked() const {
    const std::uint32_t asked = board_.asked.load(std::memory_order_seq_cst);
    const std::uint32_t next = board_.taken.load(std::memory_order_acquire);
    return next != board_.given.load(std::memory_order_acquire) && is_below(next, asked);
  }

  void finish(std::uint32_t number, CopyResult result) {
    board_.result(number).store(static_cast<std::uint32_t>(result), std::memory_order_release);
    board_.hands.fetch_sub(1, std::memory_order_seq_cst);
    board_.events.fetch_add(1, std::memory_order_seq_cst);
    // One wake-up for all jobs there are: the service process has nothing to do on the copier's core in between.
    const bool nothing_left =
        board_.taken.load(std::memory_order_seq_cst) == board_.given.load(std::memory_order_seq_cst);
    if (nothing_left && board_.service_waits.load(std::memory_order_seq_cst) != 0) futex_wake_all(board_.events);
  }

  // Sleeps until somebody rings, unless there is a job or `ended` says so after the sleep was announced.
  template <class Ended>
  void sleep(const Ended& ended) {
    const std::uint32_t heard = board_.bell.load(std::memory_order_seq_cst);
    board_.copier_sleeps.store(1, std::memory_order_seq_cst);
    const bool idle = board_.taken.load(std::memory_order_seq_cst) == board_.given.load(std::memory_order_seq_cst);
    if (idle && !ended()) futex_wait_forever(board_.bell, heard);
    board_.copier_sleeps.store(0, std::memory_order_seq_cst);
  }

 private:
  [[nodiscard]] static bool is_below(std::uint32_t number, std::uint32_t limit) {
    return static_cast<std::int32_t>(limit - number) > 0;
  }

  // `taken` is read with acquire: whoever brought it there had seen as many jobs given, so `given` is never behind it
  // here, and nothing is taken that is not there.
  template <class Wanted>
  [[nodiscard]] bool take_if(CopyJob& job, std::uint32_t& number, const Wanted& wanted) {
    board_.hands.fetch_add(1, std::memory_order_seq_cst);
    std::uint32_t next = board_.taken.load(std::memory_order_seq_cst);
    do {
      if (next == board_.given.load(std::memory_order_acquire) || !wanted(next)) {
        board_.hands.fetch_sub(1, std::memory_order_seq_cst);
        return false;
      }
    } while (!board_.taken.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel));
    number = next;
    job = board_.job(next);
    return true;
  }

  CopyBoard& board_;
};

// A service process that takes the place of another one: nothing that the dead one has given is begun any more.
// The number that it goes on with.
inline std::uint32_t take_back_all(CopyBoard& board) {
  const std::uint32_t given = board.given.load(std::memory_order_acquire);
  board.asked.store(given, std::memory_order_relaxed);
  board.taken.store(given, std::memory_order_seq_cst);
  return given;
}

// After take_back_all(): nobody copies any more what was given before. Takers say that their hands are in and then look
// what there is to take; here it is the other way round.
[[nodiscard]] inline bool hands_are_out(const CopyBoard& board) {
  return board.hands.load(std::memory_order_seq_cst) == 0;
}

// Wakes the copier if it sleeps, by either side.
inline void ring_copier(CopyBoard& board) {
  board.bell.fetch_add(1, std::memory_order_seq_cst);
  if (board.copier_sleeps.load(std::memory_order_seq_cst) != 0) futex_wake_all(board.bell);
}

}  // namespace outrigger
