#include <optional>

#include "mpi/completion/completion.hpp"
#include "mpi/completion/driving.hpp"
#include "mpi/completion/request_table.hpp"
#include "mpi/completion/waiting.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/report.hpp"
#include "mpi/start/job.hpp"

namespace outrigger::mpi {
namespace {

// Programs may wait by calling Test in a loop: where ranks make the copies, one is made in each call, and the fate of
// the service process is looked at there too.
void keep_going(Job& job) {
  static_cast<void>(job.client->help_where_alone());
  static constinit std::atomic<std::uint32_t> tests = 0;
  if (tests.fetch_add(1, std::memory_order_relaxed) % 256 == 255) end_if_lost(job);
}

// Something of a persistent collective is not done: the native MPI would take all for complete.
int not_yet(int* flag) {
  drive_native(driving_request());
  *flag = 0;
  return MPI_SUCCESS;
}

int test_one(Job& job, OurRequests& ours, MPI_Request* request, int* flag, MPI_Status* status) {
  CallTimer timer(CallTimer::Kind::test);
  timer.belongs_to(*ours.entries().front().operation);
  if (!ours.progress_all(job)) keep_going(job);
  if (ours.persistent_left()) return not_yet(flag);
  if (ours.any_persistent()) {
    *flag = 1;
    return collect_one(ours, status);
  }
  const int code = real().Test(request, flag, status);  // drives the native MPI where ours is not done
  return ours.result_of_one(code, says_yes(code, flag) ? 0 : -1);
}

int test_all(Job& job, OurRequests& ours, int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  CallTimer timer(CallTimer::Kind::test);
  timer.belongs_to(*ours.entries().front().operation);
  if (!ours.progress_all(job)) keep_going(job);
  if (ours.persistent_left()) return not_yet(flag);
  const int code = real().Testall(count, NativeRequests(ours, requests, count).data(), flag, statuses);
  if (says_yes(code, flag) || is_in_status(code)) ours.collect_persistent();
  return says_yes(code, flag) || is_in_status(code) ? ours.result_of_many(code, {}, true, count, statuses) : code;
}

int test_any(Job& job, OurRequests& ours, int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  CallTimer timer(CallTimer::Kind::test);
  timer.belongs_to(*ours.entries().front().operation);
  if (!ours.progress_any(job)) keep_going(job);
  const int code = real().Testany(count, NativeRequests(ours, requests, count).data(), index, flag, status);
  const bool none = has_none(code, *flag, index);
  if (ours.any_persistent() && (none || (code == MPI_SUCCESS && *flag == 0))) {
    if (const std::optional<int> result = collect_any(ours, index, status)) {
      *flag = 1;
      return *result;
    }
    return none && ours.persistent_left() ? not_yet(flag) : code;
  }
  return ours.result_of_one(code, index_if(says_yes(code, flag), index));
}

int test_some(Job& job, OurRequests& ours, int count, MPI_Request* requests, int* collected, int* indices,
              MPI_Status* statuses) {
  CallTimer timer(CallTimer::Kind::test);
  timer.belongs_to(*ours.entries().front().operation);
  if (!ours.progress_any(job)) keep_going(job);
  const int code = real().Testsome(count, NativeRequests(ours, requests, count).data(), collected, indices, statuses);
  if (code == MPI_SUCCESS && ours.any_persistent()) {
    if (*collected == MPI_UNDEFINED && ours.persistent_left()) drive_native(driving_request());
    collect_some(ours, collected, indices, statuses);
  }
  return ours.result_of_some(code, indices, collected, statuses);
}

}  // namespace

OUTRIGGER_ENTRY(Test, 3, Completion<&test_one>)
OUTRIGGER_ENTRY(Testall, 4, Completion<&test_all>)
OUTRIGGER_ENTRY(Testany, 5, Completion<&test_any>)
OUTRIGGER_ENTRY(Testsome, 5, Completion<&test_some>)

}  // namespace outrigger::mpi
