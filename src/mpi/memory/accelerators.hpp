// Detects accelerators, whose memory only an MPI that supports them can copy.
#pragma once

namespace outrigger::mpi {

// The program has loaded an accelerator's library (CUDA, ROCm, Level Zero), so any buffer may be its memory. Quick. Any
// thread.
[[nodiscard]] bool accelerator_loaded();

}  // namespace outrigger::mpi
