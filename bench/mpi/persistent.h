// Persistent collectives of the loaded MPI, whatever header this is compiled with: MPI 4's names, or Open MPI 4.1's
// (MPIX_X_init).
#pragma once

#include <mpi.h>

#include "workload.h"

// The workload's collective on `comm`, not started yet. Collective over `comm`; ends the job if the MPI has none.
void persistent_init(const Workload* workload, MPI_Comm comm, MPI_Request* request);
