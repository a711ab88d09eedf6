// From ranks that have agreed to offload to ranks that are served.
#pragma once

#include <string>

#include "mpi/job/job.hpp"

namespace outrigger::mpi {

// Finds this rank's node, starts the nodes' keepers, attaches, and lets the nodes get to know each other: on DPUs where
// there are some; where one of them cannot be used, on free cores of the hosts. Sets the job's client, nodes, places
// and cores. Empty: all ranks are served; else none is, for this reason. Collective over the world.
[[nodiscard]] std::string find_services(Job& job);

// Sets the job's nodes, places and cores alone. Collective over the world.
void find_places(Job& job);

}  // namespace outrigger::mpi
