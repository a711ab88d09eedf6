// How the process stands between MPI_Init and MPI_Finalize, and why nothing is offloaded: for programs that ask.
//
// Thread rule: any thread asks.
#pragma once

#include <string>

namespace outrigger::mpi {

enum class Stage { before_init, running, finalized };
[[nodiscard]] Stage stage();

// Why nothing is offloaded at present; "" where something is. Stays until the process ends.
[[nodiscard]] const char* why_inactive();

// MPI_Init has ended. `why_native` empty: offloading.
void note_started(const std::string& why_native);
// In MPI_Finalize.
void note_finalized();

}  // namespace outrigger::mpi
