// What the kernel says of a service process and of its core.
//
// Thread rule: one thread. Where the kernel does not say, nothing; it is then not asked again.
#pragma once

#include <chrono>
#include <optional>

#include "base/unique_fd.hpp"
#include "service/loop/core_watch.hpp"

namespace outrigger::service {

// Of this process's first thread (/proc/self/schedstat; kernels without CONFIG_SCHED_INFO have none).
class RunTimesReader {
 public:
  RunTimesReader();
  [[nodiscard]] std::optional<RunTimes> read();

 private:
  UniqueFd file_;
};

// How long a cpu has been idle since the machine started (/proc/stat).
class IdleTimeReader {
 public:
  explicit IdleTimeReader(int cpu) : cpu_(cpu) {}
  [[nodiscard]] std::optional<std::chrono::nanoseconds> read() const;

 private:
  int cpu_;
};

}  // namespace outrigger::service
