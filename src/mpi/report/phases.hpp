// The program's named phases (outrigger_phase_push), which nest, per thread. While something is counted, each has a row
// in the ledger: the thread's time in it, and the calls of the innermost one. They are also in a trace.
//
// Thread rule: any thread, each for itself.
#pragma once

#include <atomic>
#include <cstddef>

#include "report/ledger.hpp"

namespace outrigger::mpi {

inline constexpr std::size_t kMaxPhaseDepth = 32;

// False: the nesting limit is reached.
[[nodiscard]] bool push_phase(const char* name);
// False: this thread is in no phase.
[[nodiscard]] bool pop_phase();

namespace detail {
extern constinit std::atomic<bool> any_phase;
[[nodiscard]] report::LedgerRow* find_current_phase();
}  // namespace detail
// The row of this thread's innermost phase; nullptr if there is none, or nothing was counted when it began.
[[nodiscard]] inline report::LedgerRow* current_phase() {
  return detail::any_phase.load(std::memory_order_relaxed) ? detail::find_current_phase() : nullptr;
}

// Adds the time until now; call it before ledger and trace are read for the last time.
void note_open_phases();

}  // namespace outrigger::mpi
