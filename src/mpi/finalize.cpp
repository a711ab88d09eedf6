#include "mpi/entry.hpp"
#include "mpi/job.hpp"
#include "mpi/parting.hpp"

namespace outrigger::mpi {

OUTRIGGER_ENTRY(Finalize, ()) {
  const Job* job = current_job();
  const bool several_machines = job != nullptr && job->nodes > job->keepers_here;
  end_job();
  if (several_machines) part_together();
  return pass(Call::Finalize);
}

}  // namespace outrigger::mpi
