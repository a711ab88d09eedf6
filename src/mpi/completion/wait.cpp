#include <limits>

#include "mpi/completion/completion.hpp"
#include "mpi/completion/request_table.hpp"
#include "mpi/completion/waiting.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/report.hpp"
#include "mpi/start/job.hpp"

namespace outrigger::mpi {
namespace {

void count_waits(OurRequests& ours) {
  for (const OurRequests::Entry& entry : ours.entries()) count_wait(*entry.operation);
}

// Brings our requests of the array to their end; the native call can then block on the others.
void finish_all(Job& job, OurRequests& ours) {
  CallTimer timer(job, CallTimer::Kind::completion);
  timer.belongs_to(*ours.entries().front().operation);
  count_waits(ours);
  Waiter waiter(job, constants().request_null);
  while (!ours.progress_all(job)) {
    waiter.drive_with(ours.unfinished());
    waiter.pause();
  }
}

int wait_one(Job& job, OurRequests& ours, MPI_Request* request, MPI_Status* status) {
  finish_all(job, ours);
  return ours.result_of_one(real().Wait(request, status), 0);
}

// What a call leaves as it is when it refuses an argument. Its code need not tell: native_twin.hpp.
constexpr int kUnwritten = std::numeric_limits<int>::min();

int wait_all(Job& job, OurRequests& ours, int count, MPI_Request* requests, MPI_Status* statuses) {
  // Bad handles among the MPI's own are refused at once, not when ours have ended: that may take what comes after.
  if (!ours.progress_all(job) && ours.entries().size() < static_cast<std::size_t>(count)) {
    int flag = kUnwritten;
    const int code = real().Testall(count, requests, &flag, statuses);
    if (flag == kUnwritten || code != MPI_SUCCESS) return code;
    if (flag != 0) return ours.result_of_many(code, {}, true, count, statuses);
  }
  finish_all(job, ours);
  return ours.result_of_many(real().Waitall(count, requests, statuses), {}, true, count, statuses);
}

int wait_any(Job& job, OurRequests& ours, int count, MPI_Request* requests, int* index, MPI_Status* status) {
  CallTimer timer(job, CallTimer::Kind::completion);
  timer.belongs_to(*ours.entries().front().operation);
  count_waits(ours);
  Waiter waiter(job, constants().request_null);  // Testany drives the native MPI
  while (true) {
    ours.progress_any(job);
    int found = kUnwritten;
    const int code = real().Testany(count, requests, index, &found, status);
    if (found == kUnwritten) return code;
    if (found != 0 || code != MPI_SUCCESS) return ours.result_of_one(code, index_if(found != 0, index));
    waiter.pause();
  }
}

int wait_some(Job& job, OurRequests& ours, int count, MPI_Request* requests, int* collected, int* indices,
              MPI_Status* statuses) {
  CallTimer timer(job, CallTimer::Kind::completion);
  timer.belongs_to(*ours.entries().front().operation);
  count_waits(ours);
  Waiter waiter(job, constants().request_null);  // Testsome drives the native MPI
  while (true) {
    ours.progress_any(job);
    int found = kUnwritten;
    const int code = real().Testsome(count, requests, &found, indices, statuses);
    if (found == kUnwritten) return code;
    if (found != 0 || (code != MPI_SUCCESS && !is_in_status(code))) {
      *collected = found;
      return ours.result_of_some(code, indices, collected, statuses);
    }
    waiter.pause();
  }
}

}  // namespace

int wait_for(Job& job, MPI_Request* request) {
  progress_freed(job);
  OurRequests ours(std::span<const MPI_Request>(request, 1));
  return wait_one(job, ours, request, MPI_STATUS_IGNORE);
}

OUTRIGGER_ENTRY(Wait, 2, Completion<&wait_one>)
OUTRIGGER_ENTRY(Waitall, 3, Completion<&wait_all>)
OUTRIGGER_ENTRY(Waitany, 4, Completion<&wait_any>)
OUTRIGGER_ENTRY(Waitsome, 5, Completion<&wait_some>)

}  // namespace outrigger::mpi
