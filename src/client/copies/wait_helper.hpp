// Threads of the program that have nothing to do but wait for this rank's operations copy for its service process
// meanwhile: a core that would stand idle, or be yielded to others that wait, moves blocks beside the copier's
// (copier.hpp), by the same board.
//
// They do so where the program waits at once: once it has computed for some part of the time that the copies take, its
// service process has most of them behind it, and help brings less than it costs (docs/inside/memory.md).
//
// Where their service process has no core of its own there is no copier, and they do all of its work.
//
// They say that they wait; the service process asks for help while all of its ranks do. A thread takes one job at a
// time, a piece of a few hundred KiB at most, and completes it before it looks at what it waits for: so it never leaves
// its wait with a job. Nothing depends on help: the copier may take everything.
//
// Thread rule: any thread; one of them copies at a time. In a forked child forget() is all there is.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "client/copies/copy_jobs.hpp"
#include "client/memory/huge_pages.hpp"
#include "copy/board.hpp"
#include "copy/policy.hpp"

namespace outrigger::client {

class WaitHelper {
 public:
  WaitHelper() = default;
  WaitHelper(const WaitHelper&) = delete;
  WaitHelper& operator=(const WaitHelper&) = delete;
  ~WaitHelper() { stop(); }

  // Before any other thread uses it; without this nobody helps. The board and `pages` must stay until stop(). Where
  // there is no copier, threads make its huge pages, too.
  void allow(CopyBoard& board, HugePages& pages, copy::Lenders lenders);
  // There is no copier, and threads help whenever they wait.
  [[nodiscard]] bool alone() const { return lenders_ == copy::Lenders::waiting_ranks; }
  // An operation of so many bytes has been posted just now.
  void posted(std::uint64_t bytes);
  // The calling thread waits from now on. False: it does not help, since the program has computed after its last post.
  [[nodiscard]] bool enter();
  // After enter() was true: it waits no more.
  void leave();
  // There are copies for a thread that waits.
  [[nodiscard]] bool has_copies() const;
  // help() would find something to do: no time to sleep.
  [[nodiscard]] bool wanted() const;
  // Takes a job and completes it. False: there is none for a thread that waits, or another one copies.
  bool help();
  // No thread copies any more, but for the calling one if it is in the middle of a copy (a signal handler that ends the
  // program). Waits for the copy under way.
  void stop();
  // In a forked child, where the thread that copies is not.
  void forget();

  // Copied so far.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] bool may_copy();
  void refuse();
  bool take_one();

  CopyBoard* board_ = nullptr;
  HugePages* pages_ = nullptr;
  copy::Lenders lenders_ = copy::Lenders::none;
  int filter_ = 0;  // of system calls, that was in force at allow()
  std::atomic<bool> stopped_{false};
  std::atomic<std::thread::id> copying_{std::thread::id()};  // which thread; the default: none
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::int64_t> at_once_until_ns_{0};  // of the steady clock: who waits from then on does not wait at once
  CopyJobs jobs_;                                  // the copying thread's
};

}  // namespace outrigger::client
