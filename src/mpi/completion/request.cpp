// Calls that inspect requests and keep them.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "mpi/completion/completion.hpp"
#include "mpi/completion/driving.hpp"
#include "mpi/completion/missing_arguments.hpp"
#include "mpi/completion/request_table.hpp"
#include "mpi/completion/waiting.hpp"
#include "mpi/job/job.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/persistent/persistent.hpp"
#include "mpi/report/report.hpp"

namespace outrigger::mpi {

namespace {

struct RequestStatus {
  template <Call call>
  static int run(const CallSite& site, Word request, Word flag, Word status) {
    if (Job* job = job_to_complete()) {
      if (!site.inside_mpi()) progress_freed(*job);
      const OperationHold operation = find_request(argument<MPI_Request>(request));
      if (operation && !is_native(*operation)) {
        CallTimer timer(CallTimer::Kind::completion);
        timer.belongs_to(*operation);
        const bool left =
            (operation->persistent == nullptr || is_running(*operation)) && !progress_for_mpi(*job, *operation);
        if (operation->persistent != nullptr) {
          return pass(call, left ? driving_request() : constants().request_null, flag, status);
        }
      }
    }
    return site.pass(call, request, flag, status);
  }
};

// Progresses our requests. True: the native MPI may be asked for all, as none belongs to an active persistent
// collective.
bool look_at(const CallSite& site, Word count, Word requests) {
  Job* job = job_to_complete();
  if (job == nullptr) return true;
  OurRequests ours(span_of(argument<const MPI_Request*>(requests), argument<int>(count)));
  if (!site.inside_mpi()) progress_freed(*job);
  if (ours.empty()) return true;
  CallTimer timer(CallTimer::Kind::completion);
  timer.belongs_to(*ours.entries().front().operation);
  static_cast<void>(ours.progress_all(*job));
  const auto is_persistent = [](const OurRequests::Entry& entry) { return entry.operation->persistent != nullptr; };
  return std::ranges::none_of(ours.entries(), is_persistent);
}

// The request to show the native MPI instead of an active persistent one of ours.
MPI_Request asked_instead_of(MPI_Request request) {
  const OperationHold operation = nothing_outstanding() ? OperationHold() : find_request(request);
  if (!operation || operation->persistent == nullptr || !is_running(*operation)) return request;
  return operation->done.load(std::memory_order_acquire) ? constants().request_null : driving_request();
}

bool native_complete(MPI_Request request, MPI_Status* status, int& code) {
  request = asked_instead_of(request);
  int flag = 0;
  if (code == MPI_SUCCESS) code = real().Request_get_status(request, &flag, status);
  // Open MPI leaves this out of the empty status.
  if (request == constants().request_null && status != MPI_STATUS_IGNORE) status->MPI_ERROR = MPI_SUCCESS;
  return flag != 0;
}

std::vector<MPI_Request> without_inactive(std::span<const MPI_Request> requests) {
  std::vector<MPI_Request> active(requests.begin(), requests.end());
  for (MPI_Request& request : active) {
    const OperationHold operation = nothing_outstanding() ? OperationHold() : find_request(request);
    const bool persistent = operation && operation->persistent != nullptr;
    if (persistent && !is_native(*operation) && !is_running(*operation)) request = constants().request_null;
  }
  return active;
}

// For an MPI without these calls, by MPI_Request_get_status. Programs that ask the loader find ours.
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

// Without the ABI the arguments are unknown: passing on ends the program with a message then.
bool stands_in_for(Call call) {
  return !provided(call) && abi_matches();
}

// Arguments that every MPI rejects. `like`: a completion call with the same arguments, whose answer is returned.
template <class... Args>
std::optional<int> refusal_like(Call like, int count, const MPI_Request* requests, Args... args) {
  auto* list = const_cast<MPI_Request*>(requests);
  if (count < 0 || (count > 0 && requests == nullptr)) return pass(like, count, list, args...);
  return refusal_of_missing(constants().comm_world, like, count, list, args...);
}

// Calls `stand_in`, of type int(requests, further arguments...), if the MPI lacks the call or would misreport
// persistent collectives.
template <auto stand_in, Call like>
struct StatusOfMany;
template <class... Args, int (*stand_in)(std::span<const MPI_Request>, Args...), Call like>
struct StatusOfMany<stand_in, like> {
  template <Call call>
  static int run(const CallSite& site, Word count, Word requests, WordFor<Args>... words) {
    const bool may_ask = look_at(site, count, requests);
    if (may_ask && !stands_in_for(call)) return site.pass(call, count, requests, words...);
    const int number = argument<int>(count);
    const auto* list = argument<const MPI_Request*>(requests);
    if (const auto refused = refusal_like(like, number, list, argument<Args>(words)...)) return *refused;
    const std::vector<MPI_Request> active = without_inactive(span_of(list, number));
    return stand_in(active, argument<Args>(words)...);
  }
};

}  // namespace

OUTRIGGER_ENTRY(Request_get_status, 3, RequestStatus)
OUTRIGGER_ENTRY(Request_get_status_all, 4, StatusOfMany<&status_of_all, Call::Testall>)
OUTRIGGER_ENTRY(Request_get_status_any, 5, StatusOfMany<&status_of_any, Call::Testany>)
OUTRIGGER_ENTRY(Request_get_status_some, 5, StatusOfMany<&status_of_some, Call::Testsome>)

}  // namespace outrigger::mpi
