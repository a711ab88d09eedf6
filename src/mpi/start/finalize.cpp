#include "mpi/collectives/operation.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/native/real.hpp"
#include "mpi/start/finalize_barrier.hpp"
#include "mpi/start/job.hpp"

namespace outrigger::mpi {
namespace {

// A node's service processes end with its ranks. Until every rank of the job has what it waits for, those of other
// nodes may read there what this node's ranks have got: a rank that enters a broadcast late, when the others are
// through.
void wait_for_other_nodes(Job& job) {
  drain_operations(job);
  real().Barrier(constants().comm_world);
}

struct Finalization {
  template <Call call>
  static int run(const CallSite& site) {
    Job* job = current_job();
    const bool several_machines = job != nullptr && job->nodes > job->keepers_here;
    if (job != nullptr && job->nodes > 1) wait_for_other_nodes(*job);
    end_job();
    if (several_machines) finalize_barrier();
    return site.pass(call);
  }
};

}  // namespace

OUTRIGGER_ENTRY(Finalize, 0, Finalization)

}  // namespace outrigger::mpi
