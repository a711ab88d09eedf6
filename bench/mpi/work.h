// A fixed amount of computation without memory traffic.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Takes time in proportion to `iterations` and touches no memory.
void work(uint64_t iterations);

// The number of iterations that take `us` when all ranks work at the same time at their places: on a core shared by two
// ranks half of what one rank alone would do. Collective over MPI_COMM_WORLD; the same on every rank. `us` must be the
// same on every rank, and more than 0.
uint64_t work_lasting(double us);

#ifdef __cplusplus
}
#endif
