// The workloads that reduce: sums of integers, by rank 0 where one rank gets the result.
#pragma once

#include <mpi.h>
#include <stdbool.h>

#include "workload.h"

bool reduces(Collective collective);
// Each rank gets a block of its own; each gets the sum of the ranks up to it, or before it.
bool reduces_by_parts(Collective collective);
bool is_prefix(Collective collective);
// Numbers of one block, a whole number.
int reduction_count(const Workload* workload);

void reduction_post(const Workload* workload, MPI_Comm comm, MPI_Request* request);
void reduction_run(const Workload* workload, MPI_Comm comm);

// Fresh data in all blocks that are sent; and ends the job if a number of the result is wrong.
void reduction_fill(const Workload* workload, unsigned salt);
void reduction_check(const Workload* workload, const char* side, unsigned salt);
