#include "mpi/entry.hpp"
#include "mpi/job.hpp"

namespace outrigger::mpi {

OUTRIGGER_ENTRY(Finalize, ()) {
  end_job();
  return pass(Call::Finalize);
}

}  // namespace outrigger::mpi
