// Carries out copies of the job queue (copy/copy_queue.hpp) in the calling thread.
#pragma once

#include <linux/futex.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "copy/copy_queue.hpp"

namespace outrigger::client {

// One thread at a time, except bytes(). Allocates nothing.
class CopyJobs {
 public:
  // By a copier's thread, before its first job: the kernel marks the queue if the thread ends in the middle of a copy.
  // Must stay until the thread has ended.
  void belong_to_copier(CopyQueue& copy_queue);
  [[nodiscard]] CopyResult carry_out(const CopyJob& job);
  // Takes a job for which waiting threads are asked, carries it out and finishes it. False: there is none.
  bool take_asked(CopyQueue& copy_queue);

  // Bytes copied by take_asked() so far.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Known {
    std::int32_t pid = 0;
    std::uint64_t address = 0;
    std::uint64_t value = 0;
  };

  [[nodiscard]] CopyResult copy(const CopyJob& job);
  // Checks that the other process is the intended one. 0 or an error number.
  [[nodiscard]] int find_process(const CopyJob& job);

  // Processes whose word has been checked, so that not every copy checks it.
  std::array<Known, 64> known_{};
  std::atomic<std::uint64_t> bytes_{0};
  std::uint32_t copier_tid_ = 0;
  std::atomic<std::uint32_t>* copier_holds_ = nullptr;  // nullptr: a waiting thread
  robust_list_head robust_{};
};

}  // namespace outrigger::client
