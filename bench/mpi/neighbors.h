// Neighborhood workloads on a two-dimensional grid: the exchange of a stencil. The grid is not periodic.
#pragma once

#include <mpi.h>
#include <stdbool.h>

#include "workload.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { kNeighbors = 4 };

bool is_of_neighbors(Collective collective);
// A grid of the communicator's ranks, in their order. Collective.
MPI_Comm grid_open(MPI_Comm comm);
// The rank whose block is received at `place`; MPI_PROC_NULL at a border.
int neighbor_at(MPI_Comm grid, int place);

int neighbor_blocks_sent(const Workload* workload);

void neighbor_post(const Workload* workload, MPI_Comm grid, MPI_Request* request);
void neighbor_run(const Workload* workload, MPI_Comm grid);

#ifdef __cplusplus
}
#endif
