// The persistent collectives of the MPI that is loaded, whatever header this is compiled with: MPI 4's, or the same as
// Open MPI 4.1 names them (MPIX_X_init).
#pragma once

#include <mpi.h>

#include "workload.h"

// The workload's collective on `comm`, not started yet. Collective over `comm`; ends the job where the MPI has none.
void persistent_init(const Workload* workload, MPI_Comm comm, MPI_Request* request);
