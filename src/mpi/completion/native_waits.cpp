#include "mpi/completion/native_waits.hpp"

#include <sched.h>

#include <mutex>

#include "mpi/collectives/offloaded_collective.hpp"
#include "mpi/completion/request_table.hpp"
#include "mpi/completion/waiting.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/real.hpp"

namespace outrigger::mpi {
namespace {

// Open MPI's. The callback returns the number of events.
using ProgressCallback = int (*)();
using RegisterProgress = int(ProgressCallback);
// MPICH's.
using PollFunction = int(void* state, MPI_Status* status);
using WaitFunction = int(int count, void** states, double timeout, MPI_Status* status);
using StartExtended = int(MPI_Grequest_query_function*, MPI_Grequest_free_function*, MPI_Grequest_cancel_function*,
                          PollFunction*, WaitFunction*, void* state, MPI_Request* request);

constinit std::mutex registration_mutex;
constinit std::atomic<bool> is_registered = false;

// Called with and without locks of the MPI, by any of its threads: must neither wait nor call anything that progresses.
int look_at_some() {
  if (nothing_outstanding()) return 0;
  Job* job = current_job();
  if (job == nullptr) return 0;
  const int done = progress_some(*job);
  if (done == 0) keep_going(*job);
  return done;
}

// `status` may not point to a valid status.
int poll(void* state, MPI_Status* /*status*/) {
  Job* job = current_job();
  if (job == nullptr) return MPI_SUCCESS;
  const OperationHold operation = OperationHold::of_used(*static_cast<Operation*>(state));
  if (!operation || progress_for_mpi(*job, *operation)) return MPI_SUCCESS;
  keep_going(*job);
  drive_native();  // MPI_Wait only calls this in a loop
  if (job->cores != copy::RankCores::own) sched_yield();
  return MPI_SUCCESS;
}

int wait(int count, void** states, double /*timeout*/, MPI_Status* /*status*/) {
  Job* job = current_job();
  if (job == nullptr) return MPI_SUCCESS;
  Waiter waiter(*job, Waiter::Drives::native);
  for (int i = 0; i < count; ++i) {
    const OperationHold operation = OperationHold::of_used(*static_cast<Operation*>(states[i]));
    while (operation && !progress_for_mpi(*job, *operation)) waiter.pause();
  }
  return MPI_SUCCESS;
}

void register_progress() {
  static auto* const call = reinterpret_cast<RegisterProgress*>(function_if_there("opal_progress_register"));
  if (call == nullptr || is_registered.load(std::memory_order_acquire)) return;
  const std::scoped_lock lock(registration_mutex);
  if (!is_registered.load(std::memory_order_relaxed)) call(&look_at_some);
  is_registered.store(true, std::memory_order_release);
}

}  // namespace

int start_request(const RequestFunctions& functions, Operation& operation) {
  static auto* const extended = reinterpret_cast<StartExtended*>(function_if_there("MPIX_Grequest_start"));
  const auto& [query, free, cancel] = functions;
  if (extended != nullptr) return extended(query, free, cancel, &poll, &wait, &operation, &operation.own_request);
  register_progress();
  return real().Grequest_start(query, free, cancel, &operation, &operation.own_request);
}

void end_native_waits() {
  if (!is_registered.exchange(false)) return;
  auto* const call = reinterpret_cast<RegisterProgress*>(function_if_there("opal_progress_unregister"));
  if (call != nullptr) call(&look_at_some);
}

}  // namespace outrigger::mpi
