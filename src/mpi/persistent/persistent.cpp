#include "mpi/persistent/persistent.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "mpi/completion/request_table.hpp"
#include "mpi/job/job.hpp"
#include "mpi/report/native_requests.hpp"
#include "mpi/report/report.hpp"

namespace outrigger::mpi {
namespace detail {
constinit std::atomic<std::uint32_t> persistent_count = 0;
}

bool keep_for_starts(const Offload::Starts& starts, Operation& operation, MPI_Request request) {
  operation.comm = operation.comm->derive_persistent(starts.ordinal);
  operation.request = request;
  operation.persistent = new PersistentStarts{starts.key, starts.table};
  operation.asked.by_plan = !starts.table.by_user;
  // Types may be freed from now on.
  for (Blocks* side : {&operation.send, &operation.receive}) side->keep_type();
  insert_request(request, operation);
  count_outstanding();
  detail::persistent_count.fetch_add(1, std::memory_order_relaxed);
  return true;
}

OperationHold find_persistent(MPI_Request request) {
  OperationHold operation;
  if (!nothing_persistent()) operation = find_request(request);
  return operation && operation->persistent != nullptr ? std::move(operation) : OperationHold();
}

void erase_persistent(MPI_Request request) {
  erase_request(request);
  uncount_outstanding();
  detail::persistent_count.fetch_sub(1, std::memory_order_relaxed);
}

void forget_all_persistent() {
  std::vector<Operation*> all;
  each_request([&all](Operation& operation) {  // twice, if the operation has a generalized request of before
    if (operation.persistent != nullptr && std::ranges::find(all, &operation) == all.end()) all.push_back(&operation);
  });
  for (Operation* operation : all) {
    const bool ended = !is_running(*operation) || operation->done.load(std::memory_order_acquire);
    erase_persistent(operation->request);
    if (ended) drop(*operation);  // otherwise the client still knows it
  }
}

bool start_offloaded(const Job& job, Operation& operation) {
  PersistentStarts& starts = *operation.persistent;
  CommState& comm = *operation.comm;
  const steer::Answer answer = decide_start(job, comm, starts.key, starts.table);
  starts.native = answer.reason;
  operation.asked.algorithm = answer.algorithm;
  if (answer.way == steer::Way::offloaded) return true;
  starts.state = PersistentStarts::State::native;
  if (!starts.key.without_sizes()) {
    comm.count_native_call(*job.client);
  } else if (answer.reason == NativeReason::small_blocks) {
    comm.dispatcher().note_largest_block(operation.asked.collective, operation.receive.largest_bytes());
  }
  return false;
}

void start_run(Job& job, Operation& operation) {
  operation.persistent->state = PersistentStarts::State::running;
  operation.copies_own_block = operation.asked.own_block_done = false;
  operation.error = MPI_SUCCESS;
  operation.posted_ns = 0;
  operation.busy.store(true, std::memory_order_relaxed);  // for others that still use its last run
  operation.done.store(false, std::memory_order_relaxed);
  const OffloadedStart counted(operation);
  CallTimer timer(CallTimer::Kind::start);
  timer.belongs_to(operation);
  post_operation(job, operation);
}

}  // namespace outrigger::mpi
