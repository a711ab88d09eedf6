// Calls on one request that neither wait for it nor collect it.
#include "mpi/completion.hpp"
#include "mpi/constants.hpp"
#include "mpi/entry.hpp"
#include "mpi/job.hpp"
#include "mpi/report.hpp"
#include "mpi/request_table.hpp"

namespace outrigger::mpi {

OUTRIGGER_ENTRY(Request_get_status, (Word request, Word flag, Word status)) {
  Job* job = nothing_outstanding() ? nullptr : current_job();
  if (job != nullptr && !OUTRIGGER_CALLED_BY_MPI()) {
    progress_freed(*job);
    if (Operation* operation = find_request(argument<MPI_Request>(request))) {
      CallTimer timer(*job, CallTimer::Kind::completion);
      timer.belongs_to(*operation);
      static_cast<void>(progress(*job, *operation));
    }
  }
  return pass(Call::Request_get_status, request, flag, status);
}

OUTRIGGER_ENTRY(Request_free, (Word request)) {
  Job* job = nothing_outstanding() ? nullptr : current_job();
  auto* handle = argument<MPI_Request*>(request);
  if (job != nullptr && handle != nullptr && !OUTRIGGER_CALLED_BY_MPI()) {
    Operation* operation = find_request(*handle);
    if (operation != nullptr && !progress(*job, *operation)) {
      free_by_user(*operation);
      *handle = constants().request_null;
      return MPI_SUCCESS;
    }
  }
  return pass(Call::Request_free, request);
}

}  // namespace outrigger::mpi
