// This rank's copier: a thread that makes copies for its service process (copy/copy_queue.hpp). A thread of this
// process reaches the rank's private memory with one copy instead of two.
//
// It costs little, and nothing while there is nothing to copy. It starts when the service process has work for it. It
// runs on the service process's core only, and sleeps in one futex without a time limit. It handles no signals, has no
// descriptors, allocates nothing and calls no MPI. It ends with the process, or when the program filters its system
// calls, and does not exist in forked children.
//
// Thread rule: start() and stop() by one thread at a time.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "client/copies/call_filter.hpp"
#include "client/memory/huge_pages.hpp"
#include "copy/copy_queue.hpp"

namespace outrigger::client {

class Copier {
 public:
  Copier() = default;
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;
  ~Copier() { stop(); }

  // Starts the thread on core `cpu`. Without copies it makes huge pages. The job queue and `pages` must stay until
  // stop(). Further calls do nothing.
  void start(CopyQueue& copy_queue, HugePages& pages, int cpu);
  // Waits for the current copy, if any, and ends the thread, which cannot be started again.
  void stop();
  // In a forked child, which lacks the thread.
  void forget() { started_ = false; }

  // The thread runs and can do its work. Any thread.
  [[nodiscard]] bool runs() const { return state_.load(std::memory_order_acquire) == State::runs; }
  // Its CPU time, to be subtracted from the process's. Not after stop().
  [[nodiscard]] std::int64_t cpu_ns() const;

 private:
  enum class State : std::uint32_t { none, starts, runs, ended };

  static void* main(void* self);
  void serve();
  // Tell the service process that its core's time is used by the copier: it watches for other users of its core.
  void begin_work();
  void end_work();
  void make_huge_pages();

  CopyQueue* copy_queue_ = nullptr;
  HugePages* pages_ = nullptr;
  int cpu_ = -1;
  pthread_t thread_{};
  bool started_ = false;
  bool used_ = false;
  const CallFilter filter_;
  std::atomic<bool> stop_{false};
  std::atomic<State> state_{State::none};
};

}  // namespace outrigger::client
