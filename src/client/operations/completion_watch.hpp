// How many completions this thread knew of when it last found an operation unfinished. A thread that polls several
// operations and then sleeps must not miss one that ended between its first poll and the sleep; what other threads have
// seen does not count.
#pragma once

#include <cstdint>

namespace outrigger::client {

struct CompletionWatch {
  std::uint64_t client = 0;  // serial number of the core; 0: not polled since the last sleep
  std::uint32_t completions = 0;
};

[[nodiscard]] CompletionWatch& completion_watch();

}  // namespace outrigger::client
