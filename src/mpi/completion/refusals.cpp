// MPI_Cancel and MPI_Request_free, which MPI forbids for requests of nonblocking collectives. Our requests get the
// loaded MPI's answer (native_twin.hpp). If the MPI frees them nevertheless, the operation continues without its
// request. A persistent collective's request may be freed.
#include "mpi/completion/completion.hpp"
#include "mpi/completion/native_twin.hpp"
#include "mpi/completion/request_table.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/persistent/persistent.hpp"

namespace outrigger::mpi {
namespace {

// The operation of the request in the program's memory; empty if that is the MPI's own.
OperationHold ours_at(const Job* job, const MPI_Request* handle) {
  return job == nullptr || handle == nullptr ? OperationHold() : find_request(*handle);
}

// The same for a persistent collective, active or not.
OperationHold persistent_at(const MPI_Request* handle) {
  return handle == nullptr || current_job() == nullptr ? OperationHold() : find_persistent(*handle);
}

NativeTwin::Progress progress_of(const Operation& operation) {
  return operation.done.load(std::memory_order_acquire) ? NativeTwin::Progress::complete : NativeTwin::Progress::active;
}

struct Cancellation {
  template <Call call>
  static int run(const CallSite& site, Word request) {
    const OperationHold operation = ours_at(job_to_complete(), argument<const MPI_Request*>(request));
    const bool is_active = operation && (operation->persistent == nullptr || is_running(*operation));
    if (!is_active) return site.pass(call, request);
    NativeTwin twin(operation->comm->error_comm(), progress_of(*operation));
    return real().Cancel(twin.request());
  }
};

// Frees a persistent collective's request, which is inactive for the MPI. A running operation continues without it.
void let_go(Job& job, Operation& operation) {
  erase_persistent(operation.request);
  if (!is_running(operation) || progress(job, operation)) return drop(operation);
  count_outstanding();
  if (free_by_user(operation)) return;
  uncount_outstanding();
  drop(operation);
}

struct RequestFree {
  template <Call call>
  static int run(const CallSite& site, Word request) {
    auto* handle = argument<MPI_Request*>(request);
    if (const OperationHold persistent = persistent_at(handle)) {
      let_go(*current_job(), *persistent);
      return site.pass(call, request);
    }
    Job* job = job_to_complete();
    const OperationHold operation = ours_at(job, handle);
    if (!operation) return site.pass(call, request);
    static_cast<void>(progress(*job, *operation));
    NativeTwin twin(operation->comm->error_comm(), progress_of(*operation));
    const int code = real().Request_free(twin.request());
    if (!twin.is_gone()) {
      if (operation->done.load(std::memory_order_acquire)) complete_for_mpi(*operation);
      return code;
    }
    if (!free_by_user(*operation)) collect(*operation);  // it is done
    *handle = constants().request_null;
    return code;
  }
};

}  // namespace

OUTRIGGER_ENTRY(Cancel, 1, Cancellation)
OUTRIGGER_ENTRY(Request_free, 1, ForgettingRequest<RequestFree>)

}  // namespace outrigger::mpi
