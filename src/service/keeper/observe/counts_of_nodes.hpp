// The report of a job that ended without MPI_Finalize: the keeper of world rank 0's node collects the counts of all
// nodes.
#pragma once

#include "service/keeper/nodes/other_nodes.hpp"
#include "service/keeper/observe/job_counts.hpp"

namespace outrigger::service {

// To be called when no rank of this node is left. Closes `nodes` for everything else. Sends this node's counts, or
// waits a few seconds for those of the others. Does nothing if no report is wanted or the ranks have written it.
void gather_counts(JobCounts& counts, OtherNodes& nodes);

}  // namespace outrigger::service
