#include "mpi/completion/completion.hpp"
#include "mpi/completion/request_table.hpp"
#include "mpi/completion/waiting.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/report.hpp"
#include "mpi/start/job.hpp"

namespace outrigger::mpi {
namespace {

// Brings our requests of the array to their end; the native call can then block on the others.
void finish_all(Job& job, OurRequests& ours) {
  CallTimer timer(job, CallTimer::Kind::completion);
  timer.belongs_to(*ours.entries().front().operation);
  Waiter waiter(job, constants().request_null);
  while (!ours.progress_all(job)) {
    waiter.drive_with(ours.unfinished());
    waiter.pause();
  }
}

int wait_all(Job& job, int count, MPI_Request* requests, MPI_Status* statuses) {
  progress_freed(job);
  OurRequests ours(span_of(requests, count));
  if (ours.empty()) return real().Waitall(count, requests, statuses);
  finish_all(job, ours);
  return ours.result_of_many(real().Waitall(count, requests, statuses), {}, true, count, statuses);
}

int wait_any(Job& job, int count, MPI_Request* requests, int* index, MPI_Status* status) {
  progress_freed(job);
  OurRequests ours(span_of(requests, count));
  if (ours.empty()) return real().Waitany(count, requests, index, status);
  CallTimer timer(job, CallTimer::Kind::completion);
  timer.belongs_to(*ours.entries().front().operation);
  Waiter waiter(job, constants().request_null);  // Testany drives the native MPI
  while (true) {
    ours.progress_any(job);
    int found = 0;
    const int code = real().Testany(count, requests, index, &found, status);
    if (found != 0 || code != MPI_SUCCESS) return ours.result_of_one(code, found != 0 ? *index : -1);
    waiter.pause();
  }
}

int wait_some(Job& job, int count, MPI_Request* requests, int* collected, int* indices, MPI_Status* statuses) {
  progress_freed(job);
  OurRequests ours(span_of(requests, count));
  if (ours.empty()) return real().Waitsome(count, requests, collected, indices, statuses);
  CallTimer timer(job, CallTimer::Kind::completion);
  timer.belongs_to(*ours.entries().front().operation);
  Waiter waiter(job, constants().request_null);  // Testsome drives the native MPI
  while (true) {
    ours.progress_any(job);
    const int code = real().Testsome(count, requests, collected, indices, statuses);
    if (*collected != 0 || (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)) {
      return ours.result_of_many(code, span_of_indices(indices, *collected), false, *collected, statuses);
    }
    waiter.pause();
  }
}

}  // namespace

int wait_for(Job& job, MPI_Request* request, MPI_Status* status) {
  progress_freed(job);
  OurRequests ours(span_of(request, 1));
  if (ours.empty()) return real().Wait(request, status);
  finish_all(job, ours);
  return ours.result_of_one(real().Wait(request, status), 0);
}

OUTRIGGER_ENTRY(Wait, 2, Completion<&wait_for>)
OUTRIGGER_ENTRY(Waitall, 3, Completion<&wait_all>)
OUTRIGGER_ENTRY(Waitany, 4, Completion<&wait_any>)
OUTRIGGER_ENTRY(Waitsome, 5, Completion<&wait_some>)

}  // namespace outrigger::mpi
