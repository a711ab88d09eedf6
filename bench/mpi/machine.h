// Finds ranks on the same kernel. Containers and network namespaces of one machine count as one machine: they share its
// cores and clock.
#pragma once

#include <mpi.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// Ranks of the caller's machine. Collective over MPI_COMM_WORLD.
MPI_Comm machine_split(void);

// All ranks are on one machine and read one monotonic clock. Collective over MPI_COMM_WORLD.
bool machine_one_clock(void);

#ifdef __cplusplus
}
#endif
