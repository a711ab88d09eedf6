#include <optional>

#include "mpi/completion/completion.hpp"
#include "mpi/completion/waiting.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/report.hpp"

namespace outrigger::mpi {
namespace {

int test_one(Job& job, OurRequests& ours, MPI_Request* request, int* flag, MPI_Status* status) {
  CallTimer timer(CallTimer::Kind::test);
  timer.belongs_to(*ours.entries().front().operation);
  *flag = ours.progress_all(job) ? 1 : 0;
  if (*flag != 0) return collect_only(ours, request, status);
  keep_going(job);
  drive_native();
  return MPI_SUCCESS;
}

int test_all(Job& job, OurRequests& ours, int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  CallTimer timer(CallTimer::Kind::test);
  timer.belongs_to(*ours.entries().front().operation);
  if (!ours.progress_all(job)) keep_going(job);
  int found = kUnwritten;
  const int code = real().Testall(count, NativeRequests(ours, requests, count).data(), &found, statuses);
  if (found == kUnwritten) return code;
  *flag = found;
  return found == 0 && code == MPI_SUCCESS ? code : collect_all(ours, count, requests, statuses, code);
}

int test_any(Job& job, OurRequests& ours, int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  CallTimer timer(CallTimer::Kind::test);
  timer.belongs_to(*ours.entries().front().operation);
  if (!ours.progress_any(job)) keep_going(job);
  int found = kUnwritten;
  const int code = real().Testany(count, NativeRequests(ours, requests, count).data(), index, &found, status);
  if (found == kUnwritten) return code;
  *flag = found;
  if (code != MPI_SUCCESS || (found != 0 && *index != MPI_UNDEFINED)) return code;
  const std::optional<int> result = collect_any(ours, requests, index, status);
  if (result) *flag = 1;
  return result.value_or(code);
}

int test_some(Job& job, OurRequests& ours, int count, MPI_Request* requests, int* collected, int* indices,
              MPI_Status* statuses) {
  CallTimer timer(CallTimer::Kind::test);
  timer.belongs_to(*ours.entries().front().operation);
  if (!ours.progress_any(job)) keep_going(job);
  int found = kUnwritten;
  const int code = real().Testsome(count, NativeRequests(ours, requests, count).data(), &found, indices, statuses);
  if (found == kUnwritten) return code;
  if (code == MPI_SUCCESS) collect_some(ours, requests, &found, indices, statuses);
  *collected = found;
  return ours.result_of_some(code, indices, collected, statuses);
}

}  // namespace

OUTRIGGER_ENTRY(Test, 3, Completion<&test_one>)
OUTRIGGER_ENTRY(Testall, 4, Completion<&test_all>)
OUTRIGGER_ENTRY(Testany, 5, Completion<&test_any>)
OUTRIGGER_ENTRY(Testsome, 5, Completion<&test_some>)

}  // namespace outrigger::mpi
