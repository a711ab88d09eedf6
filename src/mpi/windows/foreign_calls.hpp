// Code in the process by which others reach its memory without calls that end guards (guards.hpp).
//
// Thread rule: any thread.
#pragma once

#include "report/window_figures.hpp"

namespace outrigger::mpi {

// `others`: OpenSHMEM. `calls`: extensions of the MPI (MPIX_...) that may take data. Looks again only if libraries have
// been loaded since the last time. Code that finds functions by dlsym() remains unknown.
[[nodiscard]] report::NoWindow foreign_calls();

// True: a setting of this process has the MPI make progress in threads of its own.
[[nodiscard]] bool wants_progress_threads();

}  // namespace outrigger::mpi
