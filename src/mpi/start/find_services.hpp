// Gets service processes for ranks that have agreed to offload.
#pragma once

#include <string>

#include "mpi/job/job.hpp"

namespace outrigger::mpi {

// Finds this rank's node, starts the nodes' keepers, attaches, and connects the nodes. Uses DPUs if there are any; if
// one of them fails, free cores of the hosts. Sets the job's client, nodes, places and cores. Empty: all ranks are
// served; otherwise none is, for this reason. Collective over the world.
[[nodiscard]] std::string find_services(Job& job);

// Sets the job's nodes, places and cores alone. Collective over the world.
void find_places(Job& job);

}  // namespace outrigger::mpi
