// What the preload files of the collectives have in common. Each file says what its call's arguments are and which of
// them the native MPI certainly rejects; the rest is here and in post.hpp.
#pragma once

#include "mpi/collectives/arguments.hpp"
#include "mpi/collectives/post.hpp"
#include "mpi/completion/completion.hpp"
#include "mpi/completion/waiting.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/report.hpp"
#include "mpi/start/job.hpp"

namespace outrigger::mpi {

// An entry point: offloaded, or passed on. `offload` is true when it has set the request (the last word); false: the
// native MPI does it, also where it is to find an error. `caller`: the entry's return address.
template <class... Words>
int offload_or_pass(Call call, bool (*offload)(Job&, Form, Words...), const void* caller, Words... words) {
  Job* job = current_job();
  if (job == nullptr || called_by_mpi(caller) || !offload(*job, Form::nonblocking, words...)) {
    return pass(call, words...);
  }
  if (job->cores != copy::RankCores::own) let_others_post();
  return MPI_SUCCESS;
}

// An entry point of a blocking form: as its nonblocking form, and waited for; where that is not to be, passed on.
template <class... Words>
int complete_or_pass(Call call, bool (*offload)(Job&, Form, Words..., Word), const void* caller, Words... words) {
  Job* job = current_job();
  if (job != nullptr && job->config.blocking && !called_by_mpi(caller)) {
    MPI_Request request = constants().request_null;
    if (offload(*job, Form::blocking, words..., reinterpret_cast<Word>(&request))) {
      return wait_for(*job, &request, MPI_STATUS_IGNORE);
    }
  }
  return pass(call, words...);
}

// Counts the call as native for its arguments. Always false.
inline bool decline(const Job& job, Collective collective, const CommState* comm) {
  count_native(job, collective, comm, NativeReason::invalid_arguments);
  return false;
}

// A blank operation of this collective.
[[nodiscard]] inline Operation& new_operation(Collective collective, const Offload& offload, bool in_place) {
  Operation& operation = *make_operation();
  operation.collective = collective;
  operation.comm = offload.comm;
  operation.algorithm = offload.algorithm;
  operation.in_place = in_place;
  return operation;
}

// The last step: hands it over. Always true.
inline bool offload_operation(Job& job, CallTimer& timer, Operation& operation, MPI_Request* request) {
  timer.belongs_to(operation);
  post_operation(job, operation);
  *request = operation.request;
  return true;
}

}  // namespace outrigger::mpi
