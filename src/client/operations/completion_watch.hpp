// How many completions this thread knew of when it last found an operation unfinished. A thread that polls several
// operations and then sleeps must not miss one that ended between its first poll and the sleep; what other threads have
// seen does not count.
#pragma once

#include <cstdint>

namespace outrigger::client {

struct CompletionWatch {
  std::uint64_t endpoint = 0;  // its serial number; 0: not polled since the last sleep
  std::uint32_t completions = 0;
};

[[nodiscard]] inline CompletionWatch& completion_watch() {
  [[gnu::tls_model("initial-exec")]] constinit static thread_local CompletionWatch watch;
  return watch;
}

}  // namespace outrigger::client
