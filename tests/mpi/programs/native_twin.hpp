// A communicator of the same ranks and topology, whose collectives are native, for comparison.
#pragma once

#include <mpi.h>

[[nodiscard]] inline MPI_Comm native_twin(MPI_Comm communicator) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "outrigger", "off");
  MPI_Comm twin;
  MPI_Comm_dup_with_info(communicator, info, &twin);
  MPI_Info_free(&info);
  return twin;
}
