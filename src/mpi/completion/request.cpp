// Calls on one request that neither wait for it nor collect it.
#include <cstddef>
#include <span>

#include "mpi/completion/completion.hpp"
#include "mpi/completion/request_table.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/report.hpp"
#include "mpi/start/job.hpp"

namespace outrigger::mpi {

OUTRIGGER_ENTRY(Request_get_status, (Word request, Word flag, Word status)) {
  Job* job = nothing_outstanding() ? nullptr : current_job();
  if (job != nullptr && !OUTRIGGER_CALLED_BY_MPI()) {
    progress_freed(*job);
    if (Operation* operation = find_request(argument<MPI_Request>(request))) {
      CallTimer timer(*job, CallTimer::Kind::completion);
      timer.belongs_to(*operation);
      static_cast<void>(progress(*job, *operation));
    }
  }
  return pass(Call::Request_get_status, request, flag, status);
}

namespace {

// Looks at those of the requests that are ours; the native MPI is asked for all of them then.
void look_at(Word count, Word requests, const void* caller) {
  Job* job = nothing_outstanding() ? nullptr : current_job();
  if (job == nullptr || called_by_mpi(caller)) return;
  progress_freed(*job);
  OurRequests ours(span_of(argument<const MPI_Request*>(requests), argument<int>(count)));
  if (ours.empty()) return;
  CallTimer timer(*job, CallTimer::Kind::completion);
  timer.belongs_to(*ours.entries().front().operation);
  static_cast<void>(ours.progress_all(*job));
}

MPI_Status* status_at(MPI_Status* statuses, std::size_t index) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + index;
}

bool native_complete(MPI_Request request, MPI_Status* status, int& code) {
  int flag = 0;
  if (code == MPI_SUCCESS) code = real().Request_get_status(request, &flag, status);
  // Open MPI leaves this out of the empty status.
  if (request == constants().request_null && status != MPI_STATUS_IGNORE) status->MPI_ERROR = MPI_SUCCESS;
  return flag != 0;
}

// For an MPI without these calls, with MPI_Request_get_status. Programs that ask the loader for them find ours.
int status_of_all(std::span<const MPI_Request> requests, int* flag, MPI_Status* statuses) {
  int code = MPI_SUCCESS;
  *flag = 0;
  for (const MPI_Request request : requests) {
    if (!native_complete(request, MPI_STATUS_IGNORE, code)) return code;
  }
  for (std::size_t i = 0; i < requests.size(); ++i) native_complete(requests[i], status_at(statuses, i), code);
  *flag = 1;
  return code;
}

int status_of_any(std::span<const MPI_Request> requests, int* index, int* flag, MPI_Status* status) {
  int code = MPI_SUCCESS;
  bool active = false;
  *index = MPI_UNDEFINED;
  for (std::size_t i = 0; i < requests.size() && code == MPI_SUCCESS; ++i) {
    if (requests[i] == constants().request_null) continue;
    active = true;
    if (!native_complete(requests[i], status, code)) continue;
    *index = static_cast<int>(i);
    *flag = 1;
    return code;
  }
  *flag = active ? 0 : 1;
  if (!active) native_complete(constants().request_null, status, code);  // the empty status
  return code;
}

int status_of_some(std::span<const MPI_Request> requests, int* found, int* indices, MPI_Status* statuses) {
  int code = MPI_SUCCESS;
  bool active = false;
  std::size_t count = 0;
  for (std::size_t i = 0; i < requests.size() && code == MPI_SUCCESS; ++i) {
    if (requests[i] == constants().request_null) continue;
    active = true;
    if (native_complete(requests[i], status_at(statuses, count), code)) indices[count++] = static_cast<int>(i);
  }
  *found = active ? static_cast<int>(count) : MPI_UNDEFINED;
  return code;
}

// Without the ABI nothing can be said of the arguments: passing on ends the program with a message then.
bool stands_in_for(Call call) {
  return !provided(call) && abi_matches();
}

std::span<const MPI_Request> requests_of(Word requests, Word count) {
  return span_of(argument<const MPI_Request*>(requests), argument<int>(count));
}

}  // namespace

OUTRIGGER_ENTRY(Request_get_status_all, (Word count, Word requests, Word flag, Word statuses)) {
  look_at(count, requests, __builtin_return_address(0));
  if (stands_in_for(Call::Request_get_status_all)) {
    return status_of_all(requests_of(requests, count), argument<int*>(flag), argument<MPI_Status*>(statuses));
  }
  return pass(Call::Request_get_status_all, count, requests, flag, statuses);
}

OUTRIGGER_ENTRY(Request_get_status_any, (Word count, Word requests, Word index, Word flag, Word status)) {
  look_at(count, requests, __builtin_return_address(0));
  if (stands_in_for(Call::Request_get_status_any)) {
    return status_of_any(requests_of(requests, count), argument<int*>(index), argument<int*>(flag),
                         argument<MPI_Status*>(status));
  }
  return pass(Call::Request_get_status_any, count, requests, index, flag, status);
}

OUTRIGGER_ENTRY(Request_get_status_some, (Word count, Word requests, Word found, Word indices, Word statuses)) {
  look_at(count, requests, __builtin_return_address(0));
  if (stands_in_for(Call::Request_get_status_some)) {
    return status_of_some(requests_of(requests, count), argument<int*>(found), argument<int*>(indices),
                          argument<MPI_Status*>(statuses));
  }
  return pass(Call::Request_get_status_some, count, requests, found, indices, statuses);
}

OUTRIGGER_ENTRY(Request_free, (Word request)) {
  Job* job = nothing_outstanding() ? nullptr : current_job();
  auto* handle = argument<MPI_Request*>(request);
  if (job != nullptr && handle != nullptr && !OUTRIGGER_CALLED_BY_MPI()) {
    Operation* operation = find_request(*handle);
    if (operation != nullptr && !progress(*job, *operation)) {
      free_by_user(*operation);
      *handle = constants().request_null;
      return MPI_SUCCESS;
    }
  }
  return pass(Call::Request_free, request);
}

}  // namespace outrigger::mpi
