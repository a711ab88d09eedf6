#include "mpi/entry.hpp"
#include "mpi/job.hpp"

namespace outrigger::mpi {

OUTRIGGER_ENTRY(Init, (Word argc, Word argv)) {
  const int code = pass(Call::Init, argc, argv);
  if (code == MPI_SUCCESS && !OUTRIGGER_CALLED_BY_MPI()) start_job();
  return code;
}

OUTRIGGER_ENTRY(Init_thread, (Word argc, Word argv, Word required, Word provided)) {
  const int code = pass(Call::Init_thread, argc, argv, required, provided);
  if (code == MPI_SUCCESS && !OUTRIGGER_CALLED_BY_MPI()) start_job();
  return code;
}

}  // namespace outrigger::mpi
