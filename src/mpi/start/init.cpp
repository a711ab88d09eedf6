#include "mpi/native/entry.hpp"
#include "mpi/start/children.hpp"
#include "mpi/start/job.hpp"

namespace outrigger::mpi {
namespace {

int initialized(int code, bool by_program) {
  if (code != MPI_SUCCESS || !by_program) return code;
  spare_children();
  start_job();
  return code;
}

}  // namespace

OUTRIGGER_ENTRY(Init, (Word argc, Word argv)) {
  return initialized(pass(Call::Init, argc, argv), !OUTRIGGER_CALLED_BY_MPI());
}

OUTRIGGER_ENTRY(Init_thread, (Word argc, Word argv, Word required, Word provided)) {
  return initialized(pass(Call::Init_thread, argc, argv, required, provided), !OUTRIGGER_CALLED_BY_MPI());
}

}  // namespace outrigger::mpi
