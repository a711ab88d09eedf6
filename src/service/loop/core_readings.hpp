// The kernel's figures of a service process and of its core. After a failed reading it is not read again.
//
// Thread rule: one thread.
#pragma once

#include <chrono>
#include <optional>

#include "base/unique_fd.hpp"
#include "service/loop/core_watch.hpp"

namespace outrigger::service {

// This process's first thread (/proc/self/schedstat; kernels without CONFIG_SCHED_INFO have none).
class RunTimesReader {
 public:
  RunTimesReader();
  [[nodiscard]] std::optional<RunTimes> read();

 private:
  UniqueFd file_;
};

// Idle time of a cpu since boot (/proc/stat).
class IdleTimeReader {
 public:
  explicit IdleTimeReader(int cpu) : cpu_(cpu) {}
  [[nodiscard]] std::optional<std::chrono::nanoseconds> read() const;

 private:
  int cpu_;
};

}  // namespace outrigger::service
