// How the job's data went between nodes, put together from what the service processes told their ranks.
#pragma once

#include <vector>

#include "report/summary.hpp"

namespace outrigger::mpi {

struct Job;

// Collective over the world. World rank 0 gets the whole job's, the others something less.
[[nodiscard]] std::vector<report::WireUse> gather_wire_use(const Job& job);

}  // namespace outrigger::mpi
