#include <limits>
#include <optional>

#include "mpi/completion/completion.hpp"
#include "mpi/completion/driving.hpp"
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
  CallTimer timer(CallTimer::Kind::completion);
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
  if (ours.any_persistent()) return collect_one(ours, status);
  return ours.result_of_one(real().Wait(request, status), 0);
}

// What a call leaves as it is when it refuses an argument. Its code need not tell: native_twin.hpp.
constexpr int kUnwritten = std::numeric_limits<int>::min();

int wait_all(Job& job, OurRequests& ours, int count, MPI_Request* requests, MPI_Status* statuses) {
  // Bad handles among the MPI's own are refused at once, not when ours have ended: that may take what comes after.
  const bool looks_first = !ours.any_persistent() && ours.entries().size() < static_cast<std::size_t>(count);
  if (looks_first && !ours.progress_all(job)) {
    int flag = kUnwritten;
    const int code = real().Testall(count, requests, &flag, statuses);
    if (flag == kUnwritten || code != MPI_SUCCESS) return code;
    if (flag != 0) return ours.result_of_many(code, {}, true, count, statuses);
  }
  finish_all(job, ours);
  const int code = real().Waitall(count, NativeRequests(ours, requests, count).data(), statuses);
  if (code == MPI_SUCCESS || is_in_status(code)) ours.collect_persistent();
  return ours.result_of_many(code, {}, true, count, statuses);
}

int wait_any(Job& job, OurRequests& ours, int count, MPI_Request* requests, int* index, MPI_Status* status) {
  CallTimer timer(CallTimer::Kind::completion);
  timer.belongs_to(*ours.entries().front().operation);
  count_waits(ours);
  Waiter waiter(job, constants().request_null);  // Testany drives the native MPI
  while (true) {
    ours.progress_any(job);
    int found = kUnwritten;
    const int code = real().Testany(count, NativeRequests(ours, requests, count).data(), index, &found, status);
    if (found == kUnwritten) return code;
    const bool all_persistent = ours.any_persistent() && has_none(code, found, index);
    if ((found != 0 && !all_persistent) || code != MPI_SUCCESS) {
      return ours.result_of_one(code, index_if(found != 0, index));
    }
    if (const std::optional<int> result = collect_any(ours, index, status)) return *result;
    if (all_persistent && !ours.persistent_left()) return code;  // none is active
    if (all_persistent) waiter.drive_with(driving_request());
    waiter.pause();
  }
}

int wait_some(Job& job, OurRequests& ours, int count, MPI_Request* requests, int* collected, int* indices,
              MPI_Status* statuses) {
  CallTimer timer(CallTimer::Kind::completion);
  timer.belongs_to(*ours.entries().front().operation);
  count_waits(ours);
  Waiter waiter(job, constants().request_null);  // Testsome drives the native MPI
  while (true) {
    ours.progress_any(job);
    int found = kUnwritten;
    const int code = real().Testsome(count, NativeRequests(ours, requests, count).data(), &found, indices, statuses);
    if (found == kUnwritten) return code;
    if (found == MPI_UNDEFINED && ours.persistent_left()) waiter.drive_with(driving_request());
    if (code == MPI_SUCCESS) collect_some(ours, &found, indices, statuses);
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
