// MPI_Start and MPI_Startall.
#include "mpi/completion/completion.hpp"
#include "mpi/completion/waiting.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/persistent/persistent.hpp"
#include "mpi/report/call_sites.hpp"
#include "mpi/report/native_requests.hpp"
#include "mpi/report/report.hpp"
#include "mpi/windows/guards.hpp"
#include "steer/rank/trial_clock.hpp"

namespace outrigger::mpi {
namespace {

// Each of the `posted` ones has its share of the time.
void let_others_post_counted(const MPI_Request* requests, int count, int posted) {
  if (!counting()) return let_others_post();
  const std::int64_t began_ns = monotonic_ns();
  let_others_post();
  const std::int64_t now_ns = monotonic_ns();
  for (int i = 0; i < count; ++i) {
    const OperationHold operation = find_persistent(requests[i]);
    if (operation && is_running(*operation)) count_yield(*operation, (now_ns - began_ns) / posted, now_ns);
  }
}

// Starts `count` requests of a call in order: ours one by one, and what lies between them as `native`, of type int(the
// first, how many), has it.
template <class Native>
int start_in_order(Job& job, MPI_Request* requests, int count, const Native& native) {
  int behind = 0;  // requests before it have been started
  const auto start_before = [&](int end) {
    const int code = end == behind ? MPI_SUCCESS : native(requests + behind, end - behind);
    behind = end;
    return code;
  };
  int posted = 0;
  for (int i = 0; i < count; ++i) {
    const OperationHold operation = find_persistent(requests[i]);
    if (!operation) continue;
    const bool active = is_running(*operation);
    if (!active && !start_offloaded(job, *operation)) continue;
    if (const int code = start_before(i); code != MPI_SUCCESS) return code;
    if (active) return raise_error(*operation->comm, MPI_ERR_REQUEST);
    start_run(job, *operation);
    ++posted;
    behind = i + 1;
  }
  const int code = start_before(count);
  if (posted > 0 && job.cores != copy::RankCores::own) let_others_post_counted(requests, count, posted);
  return code;
}

// The job, if some of the requests may be ours.
Job* job_to_start() {
  return nothing_persistent() ? nullptr : current_job();
}

NativeReason why_started_natively(MPI_Request request) {
  if (current_job() == nullptr) return NativeReason::native_job;
  const OperationHold operation = find_persistent(request);
  return operation ? operation->persistent->native : NativeReason::none;
}

// `start`, of type int(), has the MPI start these.
template <class Start>
int start_natively(const MPI_Request* requests, int count, const Start& start) {
  if (no_request_watched()) return start();
  const std::int64_t began = monotonic_ns();
  const int code = start();
  if (code != MPI_SUCCESS) return code;
  const std::int64_t each = count > 0 ? (monotonic_ns() - began) / count : 0;
  for (int i = 0; i < count; ++i) {
    const NativeReason why = why_started_natively(requests[i]);
    if (counting()) count_start(requests[i], each, why);
    if (tracing()) trace_native_start({requests[i], began}, why);
  }
  return code;
}

struct Starting {
  template <Call call>
  static int run(const CallSite& site, Word request) {
    end_guards(GuardEnd::mpi_call);
    if (steer::measuring()) [[unlikely]]
      return run_measured<call>(site, request);
    return start<call>(site, request);
  }

 private:
  template <Call call>
  [[gnu::noinline]] static int run_measured(const CallSite& site, Word request) {
    const steer::InsideMpi inside;
    return start<call>(site, request);
  }
  template <Call call>
  static int start(const CallSite& site, Word word) {
    const StartOrigin origin(site.caller);
    auto* const request = argument<MPI_Request*>(word);
    const auto native = [&](MPI_Request* /*first*/, int /*count*/) {
      return start_natively(request, 1, [&] { return site.pass(call, word); });
    };
    Job* job = job_to_start();
    return job == nullptr || request == nullptr ? native(request, 1) : start_in_order(*job, request, 1, native);
  }
};

struct StartingAll {
  template <Call call>
  static int run(const CallSite& site, Word count, Word requests) {
    end_guards(GuardEnd::mpi_call);
    if (steer::measuring()) [[unlikely]]
      return run_measured<call>(site, count, requests);
    return start<call>(site, count, requests);
  }

 private:
  template <Call call>
  [[gnu::noinline]] static int run_measured(const CallSite& site, Word count, Word requests) {
    const steer::InsideMpi inside;
    return start<call>(site, count, requests);
  }
  template <Call call>
  static int start(const CallSite& site, Word count, Word words) {
    const StartOrigin origin(site.caller);
    auto* const requests = argument<MPI_Request*>(words);
    const auto native = [&](MPI_Request* first, int some) {
      return start_natively(first, some,
                            [&] { return site.pass(call, static_cast<Word>(some), reinterpret_cast<Word>(first)); });
    };
    Job* job = job_to_start();
    const int all = argument<int>(count);
    return job == nullptr || requests == nullptr || all <= 0 ? native(requests, all)
                                                             : start_in_order(*job, requests, all, native);
  }
};

}  // namespace

OUTRIGGER_ENTRY(Start, 1, Starting)
OUTRIGGER_ENTRY(Startall, 2, StartingAll)

}  // namespace outrigger::mpi
