// The program's named phases (outrigger_phase_push, MPI_Pcontrol), which nest, per thread. While something is counted,
// each has a row in the ledger: the thread's time in it, and the calls of the innermost one. They are also in a trace.
//
// Thread rule: any thread, each for itself.
#pragma once

#include <cstddef>

namespace outrigger::mpi {

inline constexpr std::size_t kMaxPhaseDepth = 32;

// False: the nesting limit is reached.
[[nodiscard]] bool push_phase(const char* name);
// False: this thread is in no phase.
[[nodiscard]] bool pop_phase();

// For phases that are ended by name. Beyond the nesting limit, begins and ends are only counted. The end of a phase
// ends its inner phases; without an open phase of this name nothing happens.
void begin_phase(const char* name);
void end_phase(const char* name);

// Adds the time until now; call it before ledger and trace are read for the last time.
void note_open_phases();

}  // namespace outrigger::mpi
