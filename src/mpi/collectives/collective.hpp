// What the preload files of the collectives have in common. Each file says what its call's arguments are and which of
// them the native MPI certainly rejects; the rest is here and in post.hpp.
#pragma once

#include "mpi/collectives/arguments.hpp"
#include "mpi/collectives/course.hpp"
#include "mpi/collectives/post.hpp"
#include "mpi/completion/completion.hpp"
#include "mpi/completion/waiting.hpp"
#include "mpi/native/constants.hpp"
#include "mpi/native/entry.hpp"
#include "mpi/report/counted.hpp"
#include "mpi/report/report.hpp"
#include "mpi/start/job.hpp"

namespace outrigger::mpi {

// The entry points of a collective (entry.hpp). `offload`, of type bool(Job&, Form, its arguments..., MPI_Request*), is
// true when it has set the request; false: the native MPI does it, also where it is to find an error.
template <auto offload>
struct Nonblocking;
template <auto offload>
struct Blocking;

// Offloaded, or passed on.
template <class... Args, bool (*offload)(Job&, Form, Args...)>
struct Nonblocking<offload> {
  template <Call call>
  static int run(const CallSite& site, WordFor<Args>... words) {
    Job* job = current_job();
    if (job == nullptr || site.inside_mpi() || !offload(*job, Form::nonblocking, argument<Args>(words)...)) {
      return site.pass(call, words...);
    }
    if (job->cores != copy::RankCores::own) let_others_post();
    return MPI_SUCCESS;
  }
};

// As the nonblocking form, and waited for; where that is not to be, passed on.
template <class... Args, bool (*offload)(Job&, Form, Args...)>
struct Blocking<offload> {
  template <Call call, class... Words>
  static int run(const CallSite& site, Words... words) {
    Job* job = current_job();
    if (job != nullptr && job->config.blocking && !site.inside_mpi()) {
      MPI_Request request = constants().request_null;
      if (offload_words(*job, words..., reinterpret_cast<Word>(&request))) {
        return wait_for(*job, &request);
      }
    }
    return site.pass(call, words...);
  }

 private:
  static bool offload_words(Job& job, WordFor<Args>... words) {
    return offload(job, Form::blocking, argument<Args>(words)...);
  }
};

// As above, counted for the report.
template <CollectiveCall call, auto offload, Counts counts = Counts::int_sized>
using CountedNonblocking = Counted<call, CallForm::nonblocking, counts, Nonblocking<offload>>;
template <CollectiveCall call, auto offload, Counts counts = Counts::int_sized>
using CountedBlocking = Counted<call, CallForm::blocking, counts, Blocking<offload>>;

// Counts the call as native for its arguments. Always false.
inline bool decline(const Job& job) {
  if (job.reporting) count_native(NativeReason::invalid_arguments);
  return false;
}

// A call of blocks that are alike everywhere, `count` elements of the type, of which it is known that it is native
// whatever its other arguments are.
template <class Count>
[[nodiscard]] bool passes(const Job& job, CollectiveForm form, MPI_Comm comm, Count count, MPI_Datatype type) {
  CommState* state = state_of(job, comm);
  return state != nullptr && state->calls().passes(form, static_cast<std::uint64_t>(count), handle_key(type));
}
// The same from now on, if so. Always false.
template <class Count>
bool pass_on(const Offload& offload, CollectiveForm form, Count count, MPI_Datatype type, const TypeShape& shape) {
  if (offload.for_good != nullptr && shape.predefined) {
    offload.for_good->calls().let_pass(form, static_cast<std::uint64_t>(count), handle_key(type));
  }
  return false;
}

// A blank operation of this collective.
[[nodiscard]] inline Operation& new_operation(Collective collective, const Offload& offload, bool in_place) {
  Operation& operation = *make_operation();
  operation.collective = collective;
  operation.comm = offload.comm;
  operation.algorithm = offload.algorithm;
  operation.by_course = offload.by_course;
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
