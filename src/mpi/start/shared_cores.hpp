// Does a rank share its cores? Who waits there gives way sooner, and lets others post.
#pragma once

#include "mpi/start/job.hpp"

namespace outrigger::mpi {

// Sets `crowded` and `core_is_shared`, by what all ranks of this machine may run on: also those of other nodes, where
// containers or pretended nodes share it. Collective over the world; with services.
void share_cores(Job& job);

}  // namespace outrigger::mpi
