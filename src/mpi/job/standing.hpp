// State of the process between MPI_Init and MPI_Finalize, and the reason if nothing is offloaded, for the API.
//
// Thread rule: any thread may read it.
#pragma once

#include <string>

namespace outrigger::mpi {

enum class Stage { before_init, running, finalized };
[[nodiscard]] Stage stage();

// The reason why nothing is offloaded now; "" while something is. Valid until the process ends.
[[nodiscard]] const char* why_inactive();

// MPI_Init has ended. `why_native` empty: offloading.
void note_started(const std::string& why_native);
// In MPI_Finalize.
void note_finalized();

}  // namespace outrigger::mpi
