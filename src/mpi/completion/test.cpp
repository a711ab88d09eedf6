#include "mpi/completion/completion.hpp"
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

int test_one(Job& job, OurRequests& ours, MPI_Request* request, int* flag, MPI_Status* status) {
  CallTimer timer(job, CallTimer::Kind::test);
  timer.belongs_to(*ours.entries().front().operation);
  if (!ours.progress_all(job)) keep_going(job);
  const int code = real().Test(request, flag, status);  // drives the native MPI where ours is not done
  return ours.result_of_one(code, says_yes(code, flag) ? 0 : -1);
}

int test_all(Job& job, OurRequests& ours, int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  CallTimer timer(job, CallTimer::Kind::test);
  timer.belongs_to(*ours.entries().front().operation);
  if (!ours.progress_all(job)) keep_going(job);
  const int code = real().Testall(count, requests, flag, statuses);
  return says_yes(code, flag) || is_in_status(code) ? ours.result_of_many(code, {}, true, count, statuses) : code;
}

int test_any(Job& job, OurRequests& ours, int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  CallTimer timer(job, CallTimer::Kind::test);
  timer.belongs_to(*ours.entries().front().operation);
  if (!ours.progress_any(job)) keep_going(job);
  const int code = real().Testany(count, requests, index, flag, status);
  return ours.result_of_one(code, index_if(says_yes(code, flag), index));
}

int test_some(Job& job, OurRequests& ours, int count, MPI_Request* requests, int* collected, int* indices,
              MPI_Status* statuses) {
  CallTimer timer(job, CallTimer::Kind::test);
  timer.belongs_to(*ours.entries().front().operation);
  if (!ours.progress_any(job)) keep_going(job);
  const int code = real().Testsome(count, requests, collected, indices, statuses);
  return ours.result_of_some(code, indices, collected, statuses);
}

}  // namespace

OUTRIGGER_ENTRY(Test, 3, Completion<&test_one>)
OUTRIGGER_ENTRY(Testall, 4, Completion<&test_all>)
OUTRIGGER_ENTRY(Testany, 5, Completion<&test_any>)
OUTRIGGER_ENTRY(Testsome, 5, Completion<&test_some>)

}  // namespace outrigger::mpi
