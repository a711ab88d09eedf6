// A barrier for measurements. It costs little and yields, so that ranks sharing a core start together and a finished
// rank lets the others finish, however the MPI under test waits.
#pragma once

#include <mpi.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// Collective over MPI_COMM_WORLD. On one node the barrier is a counter in shared memory. Over several nodes of one
// machine it is a start time agreed over `fallback`. Otherwise it is MPI_Barrier on `fallback`.
void barrier_open(MPI_Comm fallback);
void barrier(void);
void barrier_close(void);

// All ranks are on one node, and leave the barrier within about a microsecond if each has a core.
bool barrier_is_sharp(void);

// All ranks are on one machine, as one node or several, so they share a monotonic clock.
bool barrier_one_clock(void);

#ifdef __cplusplus
}
#endif
