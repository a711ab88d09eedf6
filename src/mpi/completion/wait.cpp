#include <optional>

#include "mpi/completion/completion.hpp"
#include "mpi/completion/waiting.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/native/poll_pauses.hpp"
#include "mpi/report/call_count.hpp"
#include "mpi/report/call_sites.hpp"
#include "mpi/report/report.hpp"

namespace outrigger::mpi {
namespace {

// Before the call's time begins: the place of a call may take long to find.
void note_wait(OurRequests& ours) {
  if (!counting()) return;
  const Operation& last = *ours.entries().back().operation;
  if (last.counted != nullptr && CallCount::current() == nullptr) {
    CompletionOrigin::waits_for(*last.counted, last.ordinal);
  }
}

void count_waits(OurRequests& ours) {
  if (!counting()) return;
  for (const OurRequests::Entry& entry : ours.entries()) count_wait(*entry.operation);
}

int wait_one(Job& job, OurRequests& ours, MPI_Request* request, MPI_Status* status) {
  note_wait(ours);
  {
    CallTimer timer(CallTimer::Kind::completion);
    timer.belongs_to(*ours.entries().front().operation);
    count_waits(ours);
    Waiter waiter(job, Waiter::Drives::native, ours.are_of_ranks());
    while (!ours.progress_all(job)) waiter.pause();
  }
  return collect_only(ours, request, status);
}

// The MPI's requests are tested while ours are not done. Some progress only when tested (ROMIO's under MPICH), and
// invalid handles are rejected at once, instead of after our operations, which may depend on later calls. These tests
// complete nothing, unless a request has failed: then MPICH completes the done ones, and the call ends like its own.
int wait_all(Job& job, OurRequests& ours, int count, MPI_Request* requests, MPI_Status* statuses) {
  note_wait(ours);
  CallTimer timer(CallTimer::Kind::completion);
  timer.belongs_to(*ours.entries().front().operation);
  count_waits(ours);
  const bool tests = ours.entries().size() < static_cast<std::size_t>(count);
  Waiter waiter(job, tests ? Waiter::Drives::nothing : Waiter::Drives::native, ours.are_of_ranks());
  for (bool done = false; !done;) {
    done = ours.progress_all(job);
    if (tests) {
      int flag = kUnwritten;
      NativeRequests all_open(ours, requests, count, NativeRequests::Done::open);
      const PollsWithoutPauses scope;
      const int code = real().Testall(count, all_open.data(), &flag, statuses);
      if (flag == kUnwritten) return code;
      if (code != MPI_SUCCESS) return collect_all(ours, count, requests, statuses, code);
    }
    if (!done) waiter.pause();
  }
  const int code = real().Waitall(count, NativeRequests(ours, requests, count).data(), statuses);
  return collect_all(ours, count, requests, statuses, code);
}

int wait_any(Job& job, OurRequests& ours, int count, MPI_Request* requests, int* index, MPI_Status* status) {
  note_wait(ours);
  CallTimer timer(CallTimer::Kind::completion);
  timer.belongs_to(*ours.entries().front().operation);
  count_waits(ours);
  Waiter waiter(job, Waiter::Drives::nothing, ours.are_of_ranks());  // Testany drives the native MPI
  while (true) {
    ours.progress_any(job);
    int found = kUnwritten;
    const PollsWithoutPauses scope;
    const int code = real().Testany(count, NativeRequests(ours, requests, count).data(), index, &found, status);
    if (found == kUnwritten || code != MPI_SUCCESS) return code;
    const bool none = found != 0 && *index == MPI_UNDEFINED;
    if (found != 0 && !none) return code;
    if (const std::optional<int> result = collect_any(ours, requests, index, status)) return *result;
    if (none) return code;  // none is active
    waiter.pause();
  }
}

int wait_some(Job& job, OurRequests& ours, int count, MPI_Request* requests, int* collected, int* indices,
              MPI_Status* statuses) {
  note_wait(ours);
  CallTimer timer(CallTimer::Kind::completion);
  timer.belongs_to(*ours.entries().front().operation);
  count_waits(ours);
  Waiter waiter(job, Waiter::Drives::nothing, ours.are_of_ranks());  // Testsome drives the native MPI
  while (true) {
    ours.progress_any(job);
    int found = kUnwritten;
    const PollsWithoutPauses scope;
    const int code = real().Testsome(count, NativeRequests(ours, requests, count).data(), &found, indices, statuses);
    if (found == kUnwritten) return code;
    if (code == MPI_SUCCESS) collect_some(ours, requests, &found, indices, statuses);
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
