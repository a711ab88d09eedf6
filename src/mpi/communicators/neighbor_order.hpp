// Order of blocks between two ranks that are neighbors more than once: in a periodic dimension of one or two ranks, or
// by parallel edges of a graph. MPI 4.0 defines it for Cartesian grids (blocks sent down a dimension come from above).
// MPIs differ, even between their own calls. Open MPI 4.1 follows the rule in blocking calls, and matches blocks in the
// order of both lists in nonblocking ones. MPICH 4.0 matches in list order in MPI_Neighbor_alltoallv and w. In
// MPI_Neighbor_alltoall it matches the first of one list with the last of the other, on graphs too.
//
// Offloaded calls must give the program the same bytes as native ones. So the MPI is asked by an exchange of this rank
// with itself, when a rank with such neighbors first makes such a call. No other rank takes part; each kind of call
// costs that once in a process.
#pragma once

#include "mpi/communicators/neighbors.hpp"
#include "protocol/collective.hpp"

namespace outrigger::mpi {

struct Job;

// For an exchange with different blocks (for an allgather it makes no difference). Any thread.
[[nodiscard]] NeighborOrder native_order(const Job& job, Topology topology, Collective collective, bool blocking);

}  // namespace outrigger::mpi
