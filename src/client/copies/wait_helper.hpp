// Threads of the program that only wait for this rank's operations copy for its service process: an idle or yielded
// core moves blocks beside the copier's (copier.hpp), from the same job queue.
//
// They say whether the program waits soon after its post. Once it has computed for a part of the copies' time, the
// service process has done most of them, and help costs more than it gains unless much is left (docs/inside/memory.md).
//
// If the service process has no core, there is no copier, and they do all its copies.
//
// They announce that they wait; the service process asks for help while all its ranks wait. A thread takes one job at a
// time, at most a few hundred KiB, and completes it before it checks its own wait: so it never leaves its wait with a
// job. Nothing depends on help: the copier may take all jobs.
//
// Thread rule: any thread; one of them copies at a time. In a forked child only forget() may be called.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "client/copies/call_filter.hpp"
#include "client/copies/copy_jobs.hpp"
#include "client/memory/huge_pages.hpp"
#include "copy/copy_queue.hpp"
#include "copy/policy.hpp"

namespace outrigger::client {

class WaitHelper {
 public:
  WaitHelper() = default;
  WaitHelper(const WaitHelper&) = delete;
  WaitHelper& operator=(const WaitHelper&) = delete;
  ~WaitHelper() { stop(); }

  // Call it before other threads use this; without it no thread helps. The job queue and `pages` must stay until
  // stop(). Without a copier, threads make its huge pages, too.
  void allow(CopyQueue& copy_queue, HugePages& pages, copy::Lenders lenders);
  // There is no copier, and threads help whenever they wait.
  [[nodiscard]] bool alone() const { return lenders_ == copy::Lenders::waiting_ranks; }
  // An operation of this many bytes has been posted.
  void posted(std::uint64_t bytes);
  // The calling thread waits from now on. `no`: it does not help.
  [[nodiscard]] copy::Waits enter();
  // help() makes copies, if there are any.
  [[nodiscard]] bool able() const { return copy_queue_ != nullptr && !stopped_.load(std::memory_order_relaxed); }
  // The wait has ended; with what enter() returned.
  void leave(copy::Waits waits);
  // There are copies for a waiting thread.
  [[nodiscard]] bool has_copies() const;
  // help() would find work: do not sleep.
  [[nodiscard]] bool wanted() const;
  // Takes a job and completes it. False: there is none for a waiting thread, or another thread copies.
  bool help();
  // No thread copies any more, except the caller if it is in the middle of a copy (a signal handler that ends the
  // program). Waits for the copy in progress.
  void stop();
  // In a forked child, which lacks the copying thread.
  void forget();

  // Bytes copied so far.
  [[nodiscard]] std::uint64_t bytes() const { return jobs_.bytes(); }

 private:
  [[nodiscard]] std::atomic<std::uint32_t>& waiting(copy::Waits waits) const;
  [[nodiscard]] bool may_copy();
  void refuse();
  bool take_one();

  CopyQueue* copy_queue_ = nullptr;
  HugePages* pages_ = nullptr;
  copy::Lenders lenders_ = copy::Lenders::none;
  const CallFilter filter_;
  std::atomic<bool> stopped_{false};
  std::atomic<std::thread::id> copying_{std::thread::id()};  // default: none
  std::atomic<std::int64_t> at_once_until_ns_{0};  // of the steady clock; a later wait is not soon after the post
  CopyJobs jobs_;                                  // of the copying thread
};

}  // namespace outrigger::client
