// Workloads that reduce: sums of 32-bit integers, or of doubles after reduce_doubles(); rank 0 is the root.
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "workload.h"

bool reduces(Collective collective);
// reduces_by_parts: each rank gets its own block of the sum. is_prefix: the sum of the ranks up to it, or before it.
bool reduces_by_parts(Collective collective);
bool is_prefix(Collective collective);
// Before the first workload is opened.
void reduce_doubles(void);
MPI_Datatype reduction_type(void);
// Bytes of a number.
size_t reduction_width(void);
// Numbers in one block.
int reduction_count(const Workload* workload);

void reduction_post(const Workload* workload, MPI_Comm comm, MPI_Request* request);
void reduction_run(const Workload* workload, MPI_Comm comm);

// Writes fresh data to all sent blocks; reduction_check() ends the job if a number of the result is wrong.
void reduction_fill(const Workload* workload, unsigned salt);
void reduction_check(const Workload* workload, const char* side, unsigned salt);
