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

OUTRIGGER_ENTRY(Wait, (Word request, Word status)) {
  Job* job = nothing_outstanding() ? nullptr : current_job();
  if (job == nullptr || OUTRIGGER_CALLED_BY_MPI()) return pass(Call::Wait, request, status);
  return wait_for(*job, argument<MPI_Request*>(request), argument<MPI_Status*>(status));
}

OUTRIGGER_ENTRY(Waitall, (Word count, Word requests, Word statuses)) {
  Job* job = nothing_outstanding() ? nullptr : current_job();
  if (job == nullptr || OUTRIGGER_CALLED_BY_MPI()) return pass(Call::Waitall, count, requests, statuses);
  return wait_all(*job, argument<int>(count), argument<MPI_Request*>(requests), argument<MPI_Status*>(statuses));
}

OUTRIGGER_ENTRY(Waitany, (Word count, Word requests, Word index, Word status)) {
  Job* job = nothing_outstanding() ? nullptr : current_job();
  if (job == nullptr || OUTRIGGER_CALLED_BY_MPI()) return pass(Call::Waitany, count, requests, index, status);
  return wait_any(*job, argument<int>(count), argument<MPI_Request*>(requests), argument<int*>(index),
                  argument<MPI_Status*>(status));
}

OUTRIGGER_ENTRY(Waitsome, (Word count, Word requests, Word collected, Word indices, Word statuses)) {
  Job* job = nothing_outstanding() ? nullptr : current_job();
  if (job == nullptr || OUTRIGGER_CALLED_BY_MPI()) {
    return pass(Call::Waitsome, count, requests, collected, indices, statuses);
  }
  return wait_some(*job, argument<int>(count), argument<MPI_Request*>(requests), argument<int*>(collected),
                   argument<int*>(indices), argument<MPI_Status*>(statuses));
}

}  // namespace outrigger::mpi
