// A barrier for measuring: its own cost is small and it yields, so that ranks which share a core start together and a
// rank that has finished lets the others finish, whatever the MPI under test does while it waits.
#pragma once

#include <mpi.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// Collective over MPI_COMM_WORLD. On one node the barrier is a counter in shared memory; over several nodes of one
// machine a moment that all agree on over `fallback`; else MPI_Barrier on `fallback`.
void barrier_open(MPI_Comm fallback);
void barrier(void);
void barrier_close(void);

// All ranks are on one node, and leave the barrier within a microsecond or so of each other if they have a core each.
bool barrier_is_sharp(void);

// All ranks are on one machine, as one node or as several: their monotonic clocks are one clock.
bool barrier_one_clock(void);

#ifdef __cplusplus
}
#endif
