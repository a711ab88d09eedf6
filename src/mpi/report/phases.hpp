// Phases that the program has named (outrigger_phase_push), one inside the other, of each thread. While something is
// counted, each has a row in the ledger: how long the thread was in it, and what it called there, of the innermost
// alone. While there is a trace, each is in that, too.
//
// Thread rule: any thread, each for itself.
#pragma once

#include <atomic>
#include <cstddef>

#include "report/ledger.hpp"

namespace outrigger::mpi {

inline constexpr std::size_t kMaxPhaseDepth = 32;

// False: there are as many inside each other as may be.
[[nodiscard]] bool push_phase(const char* name);
// False: this thread is in none.
[[nodiscard]] bool pop_phase();

namespace detail {
extern constinit std::atomic<bool> any_phase;
[[nodiscard]] report::LedgerRow* find_current_phase();
}  // namespace detail
// The row of the one that this thread is in; nullptr: in none, or it is not counted, as nothing was when it began.
[[nodiscard]] inline report::LedgerRow* current_phase() {
  return detail::any_phase.load(std::memory_order_relaxed) ? detail::find_current_phase() : nullptr;
}

// Before ledger and trace are read for the last time: the time until now counts.
void note_open_phases();

}  // namespace outrigger::mpi
