// The end of a job that has not called MPI_Finalize: its keepers bring together what the ranks of all nodes have
// counted, at that of world rank 0's node, which writes it.
#pragma once

#include "service/keeper/job_counts.hpp"
#include "service/keeper/other_nodes.hpp"

namespace outrigger::service {

// Once no rank of this node is here any more: `nodes` is closed for everything else. Tells this node's, or waits for
// the others', a few seconds at most. Where there is to be no report or ranks have written it nobody waits.
void gather_counts(JobCounts& counts, OtherNodes& nodes);

}  // namespace outrigger::service
