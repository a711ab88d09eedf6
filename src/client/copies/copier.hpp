// This rank's copier: a thread that makes the copies its service process asks for (copy/board.hpp), because a
// thread of this process reaches the rank's private memory with one copy instead of two.
//
// It costs the program nothing while there is nothing to copy, and little else:
//   - it exists only in processes whose service process has seen work for it;
//   - it runs on the service process's core or not at all, and sleeps in one futex without a time limit;
//   - it handles no signals, has no descriptors, allocates nothing, calls no MPI;
//   - it dies with the process, by whatever end, and is not there in forked children.
//
// Thread rule: start() and stop() by one thread at a time.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "client/memory/huge_pages.hpp"
#include "copy/board.hpp"

namespace outrigger::client {

class Copier {
 public:
  Copier() = default;
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;
  ~Copier() { stop(); }

  // On core `cpu`. When it has nothing to copy it makes huge pages. The board and `pages` must stay until stop(). Does
  // nothing when it has been called before.
  void start(CopyBoard& board, HugePages& pages, int cpu);
  // Waits for the copy under way, if any; afterwards there is no thread. Once; it cannot be started again.
  void stop();
  // In a forked child, where the thread is not: forgets it.
  void forget() { started_ = false; }

  // It has been started and could do its work. Any thread.
  [[nodiscard]] bool runs() const { return state_.load(std::memory_order_acquire) == State::runs; }
  // CPU time that it has taken, for those who account for the process's. Not after stop().
  [[nodiscard]] std::int64_t cpu_ns() const;

 private:
  enum class State : std::uint32_t { none, starts, runs, ended };

  static void* main(void* self);
  [[nodiscard]] bool settle_down() const;
  void serve();
  // Tell the service process whose time its core's is: it watches whether others take it.
  void begin_work();
  void end_work();
  void make_huge_pages();

  CopyBoard* board_ = nullptr;
  HugePages* pages_ = nullptr;
  int cpu_ = -1;
  pthread_t thread_{};
  bool started_ = false;
  bool used_ = false;
  std::atomic<bool> stop_{false};
  std::atomic<State> state_{State::none};
};

}  // namespace outrigger::client
