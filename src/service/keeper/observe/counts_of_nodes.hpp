// The end of a job that has not called MPI_Finalize: its keepers bring together what the ranks of all nodes have
// counted, at that of world rank 0's node, which writes it.
#pragma once

#include "service/keeper/nodes/other_nodes.hpp"
#include "service/keeper/observe/job_counts.hpp"

namespace outrigger::service {

// Called when no rank of this node is left. Closes `nodes` for everything else, and sends this node's counts or waits
// for those of the others, a few seconds at most. Does not wait if there is to be no report or ranks have written it.
void gather_counts(JobCounts& counts, OtherNodes& nodes);

}  // namespace outrigger::service
