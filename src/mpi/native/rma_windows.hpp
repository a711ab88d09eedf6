// Windows of one-sided communication. An accumulate of another rank into one may need this rank's progress at any time.
//
// Thread rule: any thread.
#pragma once

#include <atomic>

namespace outrigger::mpi {

namespace detail {
inline constinit std::atomic<bool> has_had_rma_windows = false;
}  // namespace detail

inline void note_rma_window() {
  detail::has_had_rma_windows.store(true, std::memory_order_relaxed);
}
// False: the process has never made one.
[[nodiscard]] inline bool may_have_rma_windows() {
  return detail::has_had_rma_windows.load(std::memory_order_relaxed);
}

}  // namespace outrigger::mpi
