// Where this rank counts its waits: its ledger while calls are counted, else here.
#pragma once

#include <atomic>

#include "report/ledger.hpp"

namespace outrigger::mpi {

inline constinit report::WaitFigures uncounted_waits{};
inline constinit std::atomic<report::WaitFigures*> wait_figures{&uncounted_waits};

}  // namespace outrigger::mpi
