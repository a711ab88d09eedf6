// MPI_Finalize begins with the delete callbacks of MPI_COMM_SELF, in which programs communicate. The attribute that was
// set first is deleted last, so the job ends in the callback of an attribute that MPI_Init has set.
//
// With an open session MPICH calls them later, when the last session is finalized. Open MPI skips those after one that
// returns an error. Such a process counts as one that ends without MPI_Finalize; on several nodes, and if a report is
// gathered, the others wait for it.
#include "mpi/start/finalize.hpp"

#include "mpi/collectives/offloaded_collective.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/attributes.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/native/real.hpp"
#include "mpi/polite/polite_waits.hpp"
#include "mpi/report/counting.hpp"
#include "mpi/report/window_rows.hpp"
#include "mpi/start/finalize_barrier.hpp"
#include "mpi/start/lifecycle.hpp"

namespace outrigger::mpi {
namespace {

constinit bool ends_in_callback = false;  // written in MPI_Init

// A node's service processes end with its ranks. Until every rank of the job has its data, other nodes' service
// processes may read this node's ranks, for example for a rank that enters a broadcast late.
void wait_for_other_nodes(Job& job) {
  drain_operations(job);
  real().Barrier(constants().comm_world);
}

void end() {
  end_windows();
  Job* job = current_job();
  const bool several_machines =
      job != nullptr ? job->nodes > job->keepers_here : together_without_job() && spans_machines();
  if (job != nullptr && job->nodes > 1) wait_for_other_nodes(*job);
  end_job();
  if (several_machines) finalize_barrier();
  end_polite_waits();
}

int end_in_callback(MPI_Comm /*comm*/, int /*keyval*/, void* /*value*/, void* /*extra*/) {
  end();
  return MPI_SUCCESS;
}

struct Finalization {
  template <Call call>
  static int run(const CallSite& site) {
    end_guards(report::WindowEnd::mpi_call);
    if (!ends_in_callback) end();
    return site.pass(call);
  }
};

}  // namespace

void end_after_callbacks() {
  if (current_job() == nullptr && !observing()) return;
  int keyval = MPI_KEYVAL_INVALID;
  if (real().Comm_create_keyval(&attribute_not_copied, &end_in_callback, &keyval, nullptr) != MPI_SUCCESS) return;
  ends_in_callback = real().Comm_set_attr(constants().comm_self, keyval, nullptr) == MPI_SUCCESS;
  real().Comm_free_keyval(&keyval);
}

OUTRIGGER_ENTRY(Finalize, 0, Finalization)

}  // namespace outrigger::mpi
