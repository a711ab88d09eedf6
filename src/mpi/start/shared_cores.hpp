// Does a rank share its cores? Who waits there gives way sooner, and lets others post.
//
// The keeper says whether service processes have cores of their own (copy/core_share.hpp). Whether ranks have, it
// cannot know alone: several nodes of a job, with a keeper each, may be one machine. That takes the program's own MPI.
#pragma once

#include "mpi/start/job.hpp"

namespace outrigger::mpi {

// Sets `cores`, by what all ranks of this machine may run on: also those of other nodes, where
// containers or pretended nodes share it. Collective over the world; with services.
void share_cores(Job& job);

}  // namespace outrigger::mpi
