// Which block goes where between two ranks that are neighbors more than once: in a periodic dimension of one or two
// ranks, or along parallel edges of a graph. MPI 4.0 says it for Cartesian grids (what is sent down a dimension is
// received from above), and MPIs differ, also between their own calls: Open MPI 4.1 does so in blocking calls and
// matches blocks in the order of both lists in nonblocking ones; MPICH 4.0 does that in MPI_Neighbor_alltoallv and w,
// and in MPI_Neighbor_alltoall matches the first of one list with the last of the other, on graphs too.
//
// What is offloaded gives the program the bytes that it gets natively. So the MPI itself is asked, by an exchange of
// this rank with itself, when a rank with such neighbors first makes such a call. No other rank takes part, and each
// kind of call costs that once in a process.
#pragma once

#include "mpi/communicators/neighbors.hpp"
#include "protocol/collective.hpp"

namespace outrigger::mpi {

struct Job;

// Of an exchange in which blocks differ (of an allgather's it makes no difference). Any thread.
[[nodiscard]] NeighborOrder native_order(const Job& job, Topology topology, Collective collective, bool blocking);

}  // namespace outrigger::mpi
