// The job's data routes between nodes, combined from the service processes' reports to their ranks.
#pragma once

#include <vector>

#include "report/summary.hpp"

namespace outrigger::mpi {

struct Job;

// Collective over the world. World rank 0 gets the whole job's, the others a part.
[[nodiscard]] std::vector<report::WireUse> gather_wire_use(const Job& job);

}  // namespace outrigger::mpi
