// Memory of accelerators, which only an MPI that knows them can copy.
#pragma once

namespace outrigger::mpi {

// The program has loaded the library of one (CUDA, ROCm, Level Zero), so that any buffer may be its memory. Quick. Any
// thread.
[[nodiscard]] bool accelerator_loaded();

}  // namespace outrigger::mpi
