// With service processes on a DPU: this rank's copier on a spare core of the host, which the node's ranks share.
//
// A DPU cannot wake a thread of the host. So the thread looks for jobs while operations of its rank are posted:
//
//   rank                       copier                                        service process on the DPU
//     post, ring ------------->  copier_lends = 1 ---------- line ------->     jobs, if no rank waits
//     computes                   takes one, copies, gives its result           collects, gives more
//                                pause, so that others have the core
//                                ...
//                                nothing is posted: copier_lends = 0, sleeps
//
// It takes nothing while its rank waits, which copies on a core of its own. Everything else is as for the copier
// (copier.hpp): it costs nothing while nothing is posted, handles no signals, has no descriptors, and ends with the
// process.
//
// Thread rule: allow() before all others; posted() and stop() by one thread at a time.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "client/copies/call_filter.hpp"
#include "client/copies/copy_jobs.hpp"
#include "copy/copy_queue.hpp"
#include "protocol/shared/segment.hpp"

namespace outrigger::client {

struct SpareCores {
  std::vector<int> cpus;    // empty: there is none
  std::uint32_t ranks = 1;  // that share them
};

class SpareCopier {
 public:
  SpareCopier() = default;
  SpareCopier(const SpareCopier&) = delete;
  SpareCopier& operator=(const SpareCopier&) = delete;
  ~SpareCopier() { stop(); }

  // Without it there is no such copier. The segment must stay until stop().
  void allow(SegmentView segment, SpareCores cores);
  // An operation of this many bytes has been posted. Starts the thread, if the operation is worth it.
  void posted(std::uint64_t bytes);
  // Waits for the current copy, if any, and ends the thread, which cannot be started again.
  void stop();
  // In a forked child, which lacks the thread.
  void forget() { started_ = false; }

  // Bytes copied so far.
  [[nodiscard]] std::uint64_t bytes() const { return jobs_.bytes(); }

 private:
  using Clock = std::chrono::steady_clock;
  class UsedSlots;

  void ring();
  static void* main(void* self);
  void serve();
  void look_for_jobs();
  [[nodiscard]] bool ended() const;
  [[nodiscard]] bool copy_one();
  void sleep(UsedSlots& slots);
  void pause(Clock::duration without_job) const;
  [[nodiscard]] CopyQueue& queue() const { return segment_.header().copies; }

  SegmentView segment_;
  SpareCores cores_;
  pthread_t thread_{};
  bool started_ = false;
  bool used_ = false;
  const CallFilter filter_;
  std::atomic<bool> stop_{false};
  CopyJobs jobs_;
};

}  // namespace outrigger::client
