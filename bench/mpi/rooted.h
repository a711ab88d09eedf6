// Workloads between rank 0 and all others: gathers and scatters.
#pragma once

#include <mpi.h>
#include <stdbool.h>

#include "workload.h"

bool is_rooted(Collective collective);
bool gathers_at_root(Collective collective);

int rooted_blocks_sent(const Workload* workload);
int rooted_blocks_received(const Workload* workload);

void rooted_post(const Workload* workload, MPI_Comm comm, MPI_Request* request);
void rooted_run(const Workload* workload, MPI_Comm comm);
